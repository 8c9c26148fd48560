//! Making the table by the admin client.

use google_cloud_auth::credentials::anonymous::Builder as Anonymous;
use google_cloud_spanner::client::DatabaseAdmin;
use spindle::{Database, LockTable};
use spindle_emulator::Emulator;

use crate::world::{DATABASE, FOUR_COLUMNS};

pub async fn admin(emulator: &Emulator) -> DatabaseAdmin {
    let builder = DatabaseAdmin::builder().with_endpoint(emulator.rest_endpoint());
    builder.with_credentials(Anonymous::new().build()).build().await.unwrap()
}

#[tokio::test]
async fn a_table_that_was_created_passes_the_check() {
    let emulator = Emulator::start().await.unwrap();
    emulator.create_database(DATABASE, "").await.unwrap();
    let admin = admin(&emulator).await;
    let table = LockTable::new(Database::at(emulator.endpoint(), DATABASE), "jobs");
    assert!(table.check().await.unwrap_err().is_schema());

    assert!(table.create(&admin, DATABASE).await.unwrap());
    table.check().await.unwrap();
    // The second caller finds it made.
    assert!(!table.create(&admin, DATABASE).await.unwrap());
    table.check().await.unwrap();
}

#[tokio::test]
async fn creating_a_table_leaves_one_of_that_name_alone() {
    let emulator = Emulator::start().await.unwrap();
    let other = "CREATE TABLE jobs (id INT64 NOT NULL) PRIMARY KEY (id)";
    emulator.create_database(DATABASE, other).await.unwrap();
    let admin = admin(&emulator).await;
    let table = LockTable::new(Database::at(emulator.endpoint(), DATABASE), "jobs");
    assert!(!table.create(&admin, DATABASE).await.unwrap());
    let error = table.check().await.unwrap_err();
    assert!(error.is_schema(), "{error}");
}

#[tokio::test]
async fn a_table_that_cannot_be_created_says_why() {
    let emulator = Emulator::start().await.unwrap();
    let admin = admin(&emulator).await;
    let table = |name: &str| LockTable::new(Database::at(emulator.endpoint(), DATABASE), name);
    let error = table("no table").create(&admin, DATABASE).await.unwrap_err();
    assert!(error.is_config(), "{error}");
    let error = table("jobs").create(&admin, DATABASE).await.unwrap_err();
    assert!(error.to_string().contains("Database not found"), "{error}");
    emulator.create_database(DATABASE, "").await.unwrap();
    let elsewhere = "projects/p/instances/i/databases/elsewhere";
    let error = table("jobs").create(&admin, elsewhere).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("table `jobs`: create it in projects/p"), "{text}");
    assert!(!error.is_config() && !error.is_outcome_unknown(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_administration_that_gives_no_answer_is_told_within_seconds() {
    let emulator = Emulator::start().await.unwrap();
    emulator.create_database(DATABASE, "").await.unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let builder = DatabaseAdmin::builder();
    let builder = builder.with_endpoint(format!("http://{}", silent.local_addr().unwrap()));
    let admin = builder.with_credentials(Anonymous::new().build()).build().await.unwrap();
    let table = LockTable::new(Database::at(emulator.endpoint(), DATABASE), "jobs");
    let begun = tokio::time::Instant::now();
    let error = table.create(&admin, DATABASE).await.unwrap_err();
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "after {:?}", begun.elapsed());
    let text = error.to_string();
    assert!(text.contains("reach its administration over REST"), "{text}");
    assert!(error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn every_column_that_a_table_lacks_is_added_and_no_key() {
    let emulator = Emulator::start().await.unwrap();
    let three = FOUR_COLUMNS.replace("writer STRING(MAX),", "");
    let other = "CREATE TABLE jobs (id INT64 NOT NULL) PRIMARY KEY (id)";
    emulator.create_database(DATABASE, &format!("{three};\n{other}")).await.unwrap();
    let admin = admin(&emulator).await;
    let table = |name: &str| LockTable::new(Database::at(emulator.endpoint(), DATABASE), name);
    let added = table("locktable").upgrade(&admin, DATABASE).await.unwrap();
    assert_eq!(added, ["writer", "lease_ms", "info", "displaced", "next"]);
    table("locktable").check().await.unwrap();
    assert!(table("locktable").upgrade(&admin, DATABASE).await.unwrap().is_empty());
    for (name, said) in [("jobs", "no lock table"), ("missing", "is not there")] {
        let error = table(name).upgrade(&admin, DATABASE).await.unwrap_err();
        assert!(error.is_schema() && error.to_string().contains(said), "{error}");
    }
}
