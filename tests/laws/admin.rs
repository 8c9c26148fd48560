//! Making the table by the admin client.

use google_cloud_auth::credentials::anonymous::Builder as Anonymous;
use google_cloud_spanner::client::DatabaseAdmin;
use spindle::LockTable;
use spindle_emulator::Emulator;

const DATABASE: &str = "projects/p/instances/i/databases/d";

async fn admin(emulator: &Emulator) -> DatabaseAdmin {
    let builder = DatabaseAdmin::builder().with_endpoint(emulator.rest_endpoint());
    builder.with_credentials(Anonymous::new().build()).build().await.unwrap()
}

#[tokio::test]
async fn a_table_that_was_created_passes_the_check() {
    let emulator = Emulator::start().await.unwrap();
    emulator.create_database(DATABASE, "").await.unwrap();
    let admin = admin(&emulator).await;
    let table = LockTable::connect_to(emulator.endpoint(), DATABASE, "jobs");
    assert!(table.check().await.unwrap_err().is_schema());

    LockTable::create(&admin, DATABASE, "jobs").await.unwrap();
    table.check().await.unwrap();
    // The second caller finds it made.
    LockTable::create(&admin, DATABASE, "jobs").await.unwrap();
    table.check().await.unwrap();
}

#[tokio::test]
async fn creating_a_table_leaves_one_of_that_name_alone() {
    let emulator = Emulator::start().await.unwrap();
    let other = "CREATE TABLE jobs (id INT64 NOT NULL) PRIMARY KEY (id)";
    emulator.create_database(DATABASE, other).await.unwrap();
    LockTable::create(&admin(&emulator).await, DATABASE, "jobs").await.unwrap();
    let table = LockTable::connect_to(emulator.endpoint(), DATABASE, "jobs");
    let error = table.check().await.unwrap_err();
    assert!(error.is_schema(), "{error}");
}

#[tokio::test]
async fn a_table_that_cannot_be_created_says_why() {
    let emulator = Emulator::start().await.unwrap();
    let admin = admin(&emulator).await;
    let error = LockTable::create(&admin, DATABASE, "no table").await.unwrap_err();
    assert!(error.is_config(), "{error}");
    let error = LockTable::create(&admin, DATABASE, "jobs").await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("table `jobs`: create it in projects/p"), "{text}");
    assert!(!error.is_config() && !error.is_outcome_unknown(), "{error:?}");
}
