//! The same laws on a database of the PostgreSQL dialect, with the table of the ddl folder.

use google_cloud_auth::credentials::anonymous::Builder as Anonymous;
use google_cloud_spanner::client::DatabaseAdmin;
use spindle::LockTable;
use spindle_emulator::Emulator;

use crate::world::{DATABASE, LEASE, World};

const DDL: &str = include_str!("../../ddl/postgresql.sql");
const UPGRADE: &str = include_str!("../../ddl/postgresql-upgrade.sql");

async fn start(ddl: &str) -> World {
    let spanner = Emulator::start().await.unwrap();
    spanner.create_postgresql_database(DATABASE, ddl).await.unwrap();
    World { spanner }
}

#[tokio::test(start_paused = true)]
async fn the_table_of_the_ddl_folder_is_in_order() {
    start(DDL).await.table().check().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_table_of_four_columns_is_upgraded() {
    let four = DDL.replace("  lease_ms bigint,\n  info text,\n", "");
    assert_ne!(four, DDL);
    let world = start(&format!("{four}{UPGRADE}")).await;
    world.table().check().await.unwrap();
    let holder = world.elect("a").await;
    assert_eq!(holder.lock.leader().await.unwrap().unwrap().lease, Some(LEASE));
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
    let builder = DatabaseAdmin::builder().with_endpoint(world.spanner.rest_endpoint());
    let admin = builder.with_credentials(Anonymous::new().build()).build().await.unwrap();
    LockTable::create(&admin, DATABASE, "jobs").await.unwrap();
    let table = LockTable::connect_to(world.spanner.endpoint(), DATABASE, "jobs");
    table.check().await.unwrap();
    LockTable::create(&admin, DATABASE, "jobs").await.unwrap();
}
