//! The same tests on a database of the PostgreSQL dialect, with the table of the ddl folder.

use spindle::{Database, LockTable};
use spindle_emulator::Emulator;

use crate::admin::admin;
use crate::world::{DATABASE, LEASE, LOCK, World};

const DDL: &str = include_str!("../../ddl/postgresql.sql");
const UPGRADE: &str = include_str!("../../ddl/postgresql-upgrade.sql");

async fn start(ddl: &str) -> World {
    let spanner = Emulator::start().await.unwrap();
    spanner.create_postgresql_database(DATABASE, ddl).await.unwrap();
    World::on(spanner)
}

#[tokio::test(start_paused = true)]
async fn the_table_of_the_ddl_folder_is_in_order() {
    start(DDL).await.table().check().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_table_of_four_columns_is_upgraded() {
    let four = DDL
        .replace("  lease_ms bigint,\n  info text,\n  displaced timestamptz,\n  next text,\n", "");
    assert_ne!(four, DDL);
    let world = start(&format!("{four};{UPGRADE}")).await;
    world.table().check().await.unwrap();
    let holder = world.elect("a").await;
    assert_eq!(holder.lock.inspect().await.unwrap().lease, Some(LEASE));
    holder.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crashed_holder_is_taken_over_with_a_higher_token() {
    let world = start(DDL).await;
    let holder = world.elect("a").await;
    let first = holder.lock.has_lock().unwrap();
    let contender = world.contend("b");
    world.crash(&holder).await;
    assert!(contender.holds().await > first);
    assert!(holder.lock.has_lock().is_none());
    contender.stop().await;
}

#[tokio::test]
async fn a_table_that_was_created_passes_the_check() {
    let world = start("").await;
    let admin = admin(&world.spanner).await;
    let table = LockTable::new(Database::at(world.spanner.endpoint(), DATABASE), "jobs");
    assert!(table.create(&admin, DATABASE).await.unwrap());
    table.check().await.unwrap();
    assert!(!table.create(&admin, DATABASE).await.unwrap());
}

#[tokio::test]
async fn the_columns_that_a_table_lacks_are_added() {
    let four = DDL
        .replace("  lease_ms bigint,\n  info text,\n  displaced timestamptz,\n  next text,\n", "");
    let world = start(&four).await;
    let admin = admin(&world.spanner).await;
    let table = LockTable::new(Database::at(world.spanner.endpoint(), DATABASE), "locktable");
    let error = table.check().await.unwrap_err().to_string();
    assert!(error.ends_with("ALTER TABLE locktable ADD COLUMN lease_ms bigint"), "{error}");
    let error = table.inspect(LOCK).await.unwrap_err();
    assert!(error.is_schema() && error.to_string().contains("no column `lease_ms`"), "{error}");
    assert_eq!(
        table.upgrade(&admin, DATABASE).await.unwrap(),
        ["lease_ms", "info", "displaced", "next"]
    );
    table.check().await.unwrap();
    assert!(table.upgrade(&admin, DATABASE).await.unwrap().is_empty());
}
