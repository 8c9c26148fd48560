//! Google's Rust client on the embedded Spanner: the cases of `../../cases.txt`, each printed by name.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_lro::Poller;
use google_cloud_spanner::batch::BatchDml;
use google_cloud_spanner::client::{DatabaseAdmin, DatabaseClient, InstanceAdmin, Spanner};
use google_cloud_spanner::error::BatchUpdateError;
use google_cloud_spanner::key;
use google_cloud_spanner::key::{KeyRange, KeySet};
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::result::ResultSet;
use google_cloud_spanner::statement::Statement;
use google_cloud_spanner::transaction::{ReadWriteTransaction, TimestampBound};
use google_cloud_spanner::value::Value;
use google_cloud_spanner::{Decimal, Error};
use google_cloud_spanner_admin_instance_v1::model::Instance;
use google_cloud_type::model::Date;
use google_cloud_wkt::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PROJECT: &str = "projects/rust";
const INSTANCE: &str = "projects/rust/instances/clients";
const DATABASE: &str = "projects/rust/instances/clients/databases/cases";
const DDL: [&str; 3] = [
    "CREATE TABLE accounts (id INT64 NOT NULL, owner STRING(10), balance INT64) PRIMARY KEY (id)",
    "CREATE TABLE entries (
       account INT64 NOT NULL,
       number INT64 NOT NULL,
       note STRING(MAX) NOT NULL,
       written TIMESTAMP OPTIONS (allow_commit_timestamp = true),
       plain TIMESTAMP
     ) PRIMARY KEY (account, number)",
    "CREATE TABLE types (
       k INT64 NOT NULL, b BOOL, f FLOAT64, s STRING(MAX), y BYTES(MAX), d DATE, t TIMESTAMP,
       n NUMERIC, j JSON, a ARRAY<INT64>, w ARRAY<STRING(MAX)>
     ) PRIMARY KEY (k)",
];
const COMMIT_TIMESTAMP: &str = "spanner.commit_timestamp()";

type Story = Result<(), Box<dyn StdError + Send + Sync>>;

/// The cases seen so far.
#[derive(Default)]
struct Cases {
    failed: bool,
}

impl Cases {
    /// Says how a case went.
    fn say(&mut self, name: &str, story: Story) {
        match story {
            Ok(()) => println!("ok: {name}"),
            Err(error) => {
                self.failed = true;
                println!("FAILED: {name}");
                eprintln!("{name}: {error}");
            }
        }
    }

    /// Says how a case went that is an error of this code.
    fn refused<T>(&mut self, name: &str, code: Code, result: Result<T, Error>) {
        let story = match result {
            Ok(_) => Err("it was accepted".into()),
            Err(error) if code_of(&error) == Some(code) => Ok(()),
            Err(error) => Err(format!("{error:?}").into()),
        };
        self.say(&format!("error: {name} is {}", code.name()), story);
    }
}

/// The code of a status, or of an error of the HTTP form of the API.
fn code_of(error: &Error) -> Option<Code> {
    error.status().map(|status| status.code)
}

fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Story {
    match found == expected {
        true => Ok(()),
        false => Err(format!("found {found:?}, not {expected:?}").into()),
    }
}

/// The clients, and the database that the cases are about.
struct World {
    instances: InstanceAdmin,
    databases: DatabaseAdmin,
    spanner: Spanner,
}

impl World {
    async fn create_instance(&self) -> Result<Instance, Error> {
        let wanted = Instance::new()
            .set_config(format!("{PROJECT}/instanceConfigs/emulator-config"))
            .set_display_name("Clients")
            .set_node_count(1);
        let request = self.instances.create_instance().set_parent(PROJECT);
        request.set_instance_id("clients").set_instance(wanted).poller().until_done().await
    }

    async fn create_database<S: Into<String>>(
        &self,
        id: &str,
        ddl: impl IntoIterator<Item = S>,
    ) -> Result<(), Error> {
        let request = self.databases.create_database().set_parent(INSTANCE);
        let request = request.set_create_statement(format!("CREATE DATABASE `{id}`"));
        request.set_extra_statements(ddl).poller().until_done().await.map(|_| ())
    }

    async fn update_ddl(&self, statement: &str) -> Result<(), Error> {
        let request = self.databases.update_database_ddl().set_database(DATABASE);
        request.set_statements([statement]).poller().until_done().await.map(|_| ())
    }

    async fn ddl(&self, id: &str) -> Result<Vec<String>, Error> {
        let name = format!("{INSTANCE}/databases/{id}");
        Ok(self.databases.get_database_ddl().set_database(name).send().await?.statements)
    }

    async fn open(&self, name: &str) -> Result<DatabaseClient, Error> {
        self.spanner.database_client(name).build().await
    }
}

async fn an_instance_and_a_database(world: &World) -> Story {
    let configs = world.instances.list_instance_configs().set_parent(PROJECT).send().await?;
    same(configs.instance_configs.len(), 1)?;
    same(world.create_instance().await?.name.as_str(), INSTANCE)?;
    world.instances.get_instance().set_name(INSTANCE).send().await?;
    let listed = world.instances.list_instances().set_parent(PROJECT).send().await?;
    same(listed.instances.len(), 1)?;
    world.create_database("cases", DDL).await?;
    world.create_database("other", [""; 0]).await?;
    let other = format!("{INSTANCE}/databases/other");
    world.databases.drop_database().set_database(other).send().await?;
    let listed = world.databases.list_databases().set_parent(INSTANCE).send().await?;
    let names: Vec<_> = listed.databases.iter().map(|database| database.name.as_str()).collect();
    same(names, vec![DATABASE])
}

async fn the_schema(world: &World) -> Story {
    world.update_ddl("ALTER TABLE accounts ADD COLUMN note STRING(MAX) DEFAULT ('none')").await?;
    let statements = world.ddl("cases").await?;
    same(
        (statements.len(), statements[0].contains("note STRING(MAX) DEFAULT ('none')")),
        (3, true),
    )?;
    // The reported DDL makes the same database again.
    world.create_database("copy", statements.clone()).await?;
    same(world.ddl("copy").await?, statements)
}

fn account(
    kind: fn(&str) -> google_cloud_spanner::builder::WriteBuilder,
    id: i64,
    balance: i64,
) -> Mutation {
    kind("accounts").set("id").to(id).set("balance").to(balance).build()
}

fn insert(table: &str) -> google_cloud_spanner::builder::WriteBuilder {
    Mutation::new_insert_builder(table)
}

fn update(table: &str) -> google_cloud_spanner::builder::WriteBuilder {
    Mutation::new_update_builder(table)
}

fn insert_or_update(table: &str) -> google_cloud_spanner::builder::WriteBuilder {
    Mutation::new_insert_or_update_builder(table)
}

fn replace(table: &str) -> google_cloud_spanner::builder::WriteBuilder {
    Mutation::new_replace_builder(table)
}

fn delete(id: i64) -> Mutation {
    Mutation::delete("accounts", KeySet::builder().add_key(key![id]).build())
}

async fn apply(client: &DatabaseClient, mutations: Vec<Mutation>) -> Result<Timestamp, Error> {
    let response = client.write_only_transaction().build().write(mutations).await?;
    Ok(response.commit_timestamp.unwrap_or_default())
}

/// Leaves these accounts and no others.
async fn start_with(client: &DatabaseClient, accounts: &[(i64, &str, i64)]) -> Result<(), Error> {
    let mut mutations = vec![Mutation::delete("accounts", KeySet::all())];
    mutations.extend(accounts.iter().map(|&(id, owner, balance)| {
        let row = insert("accounts").set("id").to(id).set("owner").to(owner);
        row.set("balance").to(balance).build()
    }));
    apply(client, mutations).await.map(|_| ())
}

fn all(table: &str, columns: &[&str]) -> ReadRequest {
    let columns: Vec<String> = columns.iter().map(|&column| column.into()).collect();
    ReadRequest::builder(table, columns).with_keys(KeySet::all()).build()
}

async fn pairs(mut rows: ResultSet) -> Result<BTreeMap<i64, i64>, Error> {
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next().await.transpose()? {
        found.insert(row.get(0)?, row.get(1)?);
    }
    Ok(found)
}

/// The balance of each account, by its id.
async fn balances(client: &DatabaseClient) -> Result<BTreeMap<i64, i64>, Error> {
    let read = all("accounts", &["id", "balance"]);
    pairs(client.single_use().build().execute_read(read).await?).await
}

async fn holds(client: &DatabaseClient, expected: &[(i64, i64)]) -> Story {
    same(balances(client).await?, expected.iter().copied().collect())
}

async fn mutations_of_each_kind(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 10), (2, "b", 20), (3, "c", 30), (4, "d", 40)]).await?;
    let mutations = vec![
        account(insert, 5, 50),
        account(update, 1, 11),
        account(insert_or_update, 2, 22),
        account(insert_or_update, 6, 60),
        account(replace, 3, 33),
        delete(4),
    ];
    apply(client, mutations).await?;
    let read = all("accounts", &["id", "owner", "balance"]);
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut found = Vec::new();
    while let Some(row) = rows.next_as::<(i64, Option<String>, i64)>().await.transpose()? {
        found.push((row.0, row.1.unwrap_or_default(), row.2));
    }
    let expected = [(1, "a", 11), (2, "b", 22), (3, "", 33), (5, "", 50), (6, "", 60)];
    same(found, expected.map(|(id, owner, balance)| (id, owner.to_owned(), balance)).to_vec())
}

async fn dml(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 10), (2, "b", 20)]).await?;
    let work = |transaction: ReadWriteTransaction| async move {
        let insert = "INSERT INTO accounts (id, owner, balance) VALUES (@id, @owner, @balance)";
        let insert = Statement::builder(insert).add_param("id", 3).add_param("owner", "c");
        let inserted = transaction.execute_update(insert.add_param("balance", 30).build()).await?;
        let raise = "UPDATE accounts SET balance = balance + 1 WHERE id > 1";
        let updated = transaction.execute_update(raise).await?;
        // It sees what it has written.
        let look = "SELECT id, balance FROM accounts WHERE id = 3";
        let seen = pairs(transaction.execute_query(look).await?).await?;
        let deleted = transaction.execute_update("DELETE FROM accounts WHERE id = 1").await?;
        Ok((inserted, updated, seen, deleted))
    };
    let found = client.read_write_transaction().build().run(work).await?.into_inner();
    same(found, (1, 2, [(3, 31)].into(), 1))?;
    holds(client, &[(2, 21), (3, 31)]).await
}

async fn upserts_and_lists(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 10), (2, "b", 20)]).await?;
    let work = |transaction: ReadWriteTransaction| async move {
        let upsert = "INSERT OR UPDATE INTO accounts (id, owner, balance)
                      VALUES (2, 'c', 30), (3, 'c', 40)";
        let upserted = transaction.execute_update(upsert).await?;
        let update = "UPDATE accounts SET balance = balance + 1 WHERE id IN UNNEST(@ids)
                      THEN RETURN id, balance";
        let update = Statement::builder(update).add_param("ids", vec![1_i64, 3]).build();
        Ok((upserted, pairs(transaction.execute_query(update).await?).await?))
    };
    let found = client.read_write_transaction().build().run(work).await?.into_inner();
    same(found, (2, [(1, 11), (3, 41)].into()))?;
    let sums = "SELECT MIN(id) + MAX(id), SUM(balance) FROM accounts WHERE owner LIKE 'c%'";
    let sums = client.single_use().build().execute_query(sums).await?;
    same(pairs(sums).await?, [(5, 71)].into())
}

async fn batch_dml(client: &DatabaseClient) -> Story {
    let batch = |in_the_middle: &'static str| async move {
        start_with(client, &[(1, "a", 10)]).await?;
        let work = move |transaction: ReadWriteTransaction| async move {
            let batch = BatchDml::builder()
                .add_statement("UPDATE accounts SET balance = 11 WHERE id = 1")
                .add_statement(in_the_middle)
                .add_statement("UPDATE accounts SET balance = 12 WHERE id = 1");
            let Err(error) = transaction.execute_batch_update(batch.build()).await else {
                return Ok(None);
            };
            let failed = BatchUpdateError::extract(&error);
            Ok(failed.map(|failed| (code_of(&failed.status), failed.update_counts.clone())))
        };
        Ok::<_, Error>(client.read_write_transaction().build().run(work).await?.into_inner())
    };
    let stopped = batch("UPDATE nothing SET x = 1 WHERE true").await?;
    same(stopped, Some((Some(Code::InvalidArgument), vec![1])))?;
    holds(client, &[(1, 11)]).await?;
    // A violated constraint spoils the whole transaction, as in Cloud Spanner.
    let spoiled = batch("INSERT INTO accounts (id) VALUES (1)").await;
    same(spoiled.map_err(|error| code_of(&error)), Err(Some(Code::AlreadyExists)))?;
    holds(client, &[(1, 10)]).await
}

async fn ids(rows: ResultSet) -> Result<Vec<i64>, Error> {
    let mut rows = rows;
    let mut found = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        found.push(row.get(0)?);
    }
    Ok(found)
}

async fn reads(client: &DatabaseClient) -> Story {
    let accounts: Vec<_> = (1..7).map(|id| (id, "x", id * 10)).collect();
    start_with(client, &accounts).await?;
    let read = |keys: KeySet| async move {
        let read = ReadRequest::builder("accounts", ["id"]).with_keys(keys).build();
        ids(client.single_use().build().execute_read(read).await?).await
    };
    let keys = KeySet::builder().add_key(key![5_i64]).add_key(key![2_i64]).add_key(key![9_i64]);
    same(read(keys.build()).await?, vec![2, 5])?;
    let range = |range: KeyRange| KeySet::builder().add_range(range).build();
    same(read(range(KeyRange::closed_open(key![2_i64], key![4_i64]))).await?, vec![2, 3])?;
    same(read(range(KeyRange::open_closed(key![2_i64], key![4_i64]))).await?, vec![3, 4])?;
    same(read(KeySet::all()).await?, vec![1, 2, 3, 4, 5, 6])?;
    let two = ReadRequest::builder("accounts", ["id"]).with_keys(KeySet::all()).set_limit(2);
    let rows = client.single_use().build().execute_read(two.build()).await?;
    same(ids(rows).await?, vec![1, 2])?;
    let query = "SELECT id FROM accounts WHERE balance >= 50 ORDER BY id DESC";
    same(ids(client.single_use().build().execute_query(query).await?).await?, vec![6, 5])
}

async fn balance_at(client: &DatabaseClient, bound: TimestampBound) -> Result<i64, Error> {
    let reads = client.single_use().set_timestamp_bound(bound).build();
    let found = pairs(reads.execute_read(all("accounts", &["id", "balance"])).await?).await?;
    Ok(found.get(&1).copied().unwrap_or_default())
}

async fn bounds(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 10)]).await?;
    let before = apply(client, vec![account(update, 1, 15)]).await?;
    apply(client, vec![account(update, 1, 20)]).await?;
    same(balance_at(client, TimestampBound::strong()).await?, 20)?;
    same(balance_at(client, TimestampBound::read_timestamp(before)).await?, 15)?;
    same(balance_at(client, TimestampBound::exact_staleness(Duration::ZERO)).await?, 20)?;
    let hour = Duration::from_secs(3_600);
    for bound in [TimestampBound::max_staleness(hour), TimestampBound::min_read_timestamp(before)] {
        same([15, 20].contains(&balance_at(client, bound).await?), true)?;
    }
    Ok(())
}

async fn one_snapshot(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 10), (2, "b", 20)]).await?;
    let snapshot = client.read_only_transaction().build().await?;
    let read = all("accounts", &["id", "balance"]);
    let first = pairs(snapshot.execute_read(read).await?).await?;
    apply(client, vec![account(update, 1, 99), delete(2)]).await?;
    let again = snapshot.execute_query("SELECT id, balance FROM accounts").await?;
    same((first, pairs(again).await?), ([(1, 10), (2, 20)].into(), [(1, 10), (2, 20)].into()))?;
    holds(client, &[(1, 99)]).await
}

/// Adds 1 to the balance of account 1.
async fn increment(client: &DatabaseClient, attempts: &Arc<AtomicU32>) -> Result<(), Error> {
    let attempts = Arc::clone(attempts);
    let work = move |transaction: ReadWriteTransaction| {
        attempts.fetch_add(1, Ordering::SeqCst);
        async move {
            let keys = KeySet::builder().add_key(key![1_i64]).build();
            let read = ReadRequest::builder("accounts", ["id", "balance"]).with_keys(keys).build();
            let found = pairs(transaction.execute_read(read).await?).await?;
            transaction
                .buffer(found.into_iter().map(|(id, balance)| account(update, id, balance + 1)))
        }
    };
    client.read_write_transaction().build().run(work).await.map(|_| ())
}

async fn eight_workers(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 0)]).await?;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = client.clone();
        workers.spawn(async move {
            for _ in 0..10 {
                increment(&client, &Arc::default()).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    holds(client, &[(1, 80)]).await
}

/// Asks the emulator's control service, and gives the reply.
async fn control(request: &str, body: &str) -> Result<String, Box<dyn StdError + Send + Sync>> {
    let endpoint = std::env::var("SPANNER_EMULATOR_CONTROL")?;
    let address = endpoint.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    Ok(reply.rsplit("\r\n\r\n").next().unwrap_or_default().trim().to_owned())
}

async fn aborted_and_retried(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 10)]).await?;
    let fault = r#"{"rpc": "Commit", "table": "accounts", "times": 2, "effect": "abort"}"#;
    let injected = control("POST /faults", fault).await?;
    let id: String = injected.chars().filter(char::is_ascii_digit).collect();
    let attempts = Arc::new(AtomicU32::new(0));
    increment(client, &attempts).await?;
    same(attempts.load(Ordering::SeqCst), 3)?;
    same(control(&format!("GET /faults/{id}"), "").await?.as_str(), r#"{"hits":2}"#)?;
    holds(client, &[(1, 11)]).await
}

async fn rolled_back(client: &DatabaseClient) -> Story {
    start_with(client, &[(1, "a", 10)]).await?;
    let work = |transaction: ReadWriteTransaction| async move {
        transaction.execute_update("UPDATE accounts SET balance = 0 WHERE id = 1").await?;
        transaction.buffer([account(insert, 2, 0)])?;
        let status = google_cloud_gax::error::rpc::Status::default().set_code(Code::Cancelled);
        Err::<(), _>(Error::service(status.set_message("changed its mind")))
    };
    let ended = client.read_write_transaction().build().run(work).await;
    same(ended.map(|_| ()).map_err(|error| code_of(&error)), Err(Some(Code::Cancelled)))?;
    // Nothing is locked either: this would wait for it.
    let start = tokio::time::Instant::now();
    let owner = update("accounts").set("id").to(1).set("owner").to("b").build();
    apply(client, vec![owner]).await?;
    same(start.elapsed() < Duration::from_secs(5), true)?;
    holds(client, &[(1, 10)]).await
}

fn entry(number: i64) -> google_cloud_spanner::builder::WriteBuilder {
    insert("entries").set("account").to(1).set("number").to(number).set("note").to("x")
}

async fn commit_timestamps(client: &DatabaseClient) -> Story {
    let written = entry(1).set("written").to(COMMIT_TIMESTAMP).build();
    let applied = apply(client, vec![written]).await?;
    let work = |transaction: ReadWriteTransaction| async move {
        let insert = "INSERT INTO entries (account, number, note, written)
                      VALUES (1, 2, 'd', PENDING_COMMIT_TIMESTAMP())";
        transaction.execute_update(insert).await
    };
    let by_dml = client.read_write_transaction().build().run(work).await?;
    let by_dml = by_dml.commit_timestamp().unwrap_or_default();
    let read = all("entries", &["written"]);
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut found: Vec<Timestamp> = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        found.push(row.get(0)?);
    }
    same((found, applied < by_dml), (vec![applied, by_dml], true))
}

type Row = (
    i64,
    Option<bool>,
    Option<f64>,
    Option<String>,
    Option<Vec<u8>>,
    Option<Date>,
    Option<Timestamp>,
    Option<Decimal>,
    Option<String>,
    Option<Vec<Option<i64>>>,
    Option<Vec<String>>,
);

async fn every_type(client: &DatabaseClient) -> Story {
    let columns = ["k", "b", "f", "s", "y", "d", "t", "n", "j", "a", "w"];
    let (day, at) = (
        Date::new().set_year(1969).set_month(12).set_day(31),
        Timestamp::try_from("2026-02-03T04:05:06.789012345Z")?,
    );
    let number: Decimal = "-12345678901234567890.123456789".parse()?;
    let full: Row = (
        1,
        Some(true),
        Some(1.5),
        Some("ä\n".to_owned()),
        Some(vec![0, 255]),
        Some(day.clone()),
        Some(at),
        Some(number),
        Some(r#"{"a":[1,null]}"#.to_owned()),
        Some(vec![Some(1), None]),
        Some(vec!["x".to_owned()]),
    );
    let empty: Row = (2, None, None, None, None, None, None, None, None, None, None);
    let mutation = |row: Row| {
        let values: [Value; 11] = [
            row.0.into(),
            row.1.into(),
            row.2.into(),
            row.3.into(),
            row.4.into(),
            row.5.into(),
            row.6.into(),
            row.7.into(),
            row.8.into(),
            row.9.into(),
            row.10.into(),
        ];
        let row = columns.iter().zip(values);
        row.fold(insert("types"), |row, (column, value)| row.set(*column).to(value)).build()
    };
    apply(client, vec![mutation(full.clone()), mutation(empty.clone())]).await?;
    let rows = client.single_use().build().execute_read(all("types", &columns)).await?;
    same(typed(rows).await?, vec![full.clone(), empty])?;
    let query = "SELECT * FROM types WHERE s = @s AND y = @y AND t = @t AND f = @f AND d = @d AND b = @b AND n = @n";
    let query = Statement::builder(query)
        .add_param("s", "ä\n")
        .add_param("y", vec![0_u8, 255])
        .add_param("t", at)
        .add_param("f", 1.5)
        .add_param("d", day)
        .add_param("b", true)
        .add_param("n", number);
    let rows = client.single_use().build().execute_query(query.build()).await?;
    same(typed(rows).await?, vec![full])
}

async fn typed(mut rows: ResultSet) -> Result<Vec<Row>, Error> {
    let mut found = Vec::new();
    while let Some(row) = rows.next_as().await.transpose()? {
        found.push(row);
    }
    Ok(found)
}

async fn query(client: &DatabaseClient, sql: &str) -> Result<(), Error> {
    let mut rows = client.single_use().build().execute_query(sql).await?;
    while rows.next().await.transpose()?.is_some() {}
    Ok(())
}

async fn read(client: &DatabaseClient, read: ReadRequest) -> Result<(), Error> {
    let mut rows = client.single_use().build().execute_read(read).await?;
    while rows.next().await.transpose()?.is_some() {}
    Ok(())
}

async fn pending_timestamp(client: &DatabaseClient) -> Result<(), Error> {
    let work = |transaction: ReadWriteTransaction| async move {
        let update = "UPDATE entries SET written = PENDING_COMMIT_TIMESTAMP() WHERE account = 1";
        transaction.execute_update(update).await?;
        let mut rows = transaction.execute_query("SELECT written FROM entries").await?;
        rows.next().await.transpose().map(|_| ())
    };
    client.read_write_transaction().build().run(work).await.map(|_| ())
}

async fn errors_of_mutations(cases: &mut Cases, client: &DatabaseClient) {
    use Code::{AlreadyExists, FailedPrecondition, InvalidArgument, NotFound};
    let id = |kind: fn(&str) -> google_cloud_spanner::builder::WriteBuilder,
              table: &str,
              id: i64| { kind(table).set("id").to(id) };
    let later = "2100-01-01T00:00:00Z";
    let nobody: Option<&str> = None;
    let note = insert("entries").set("account").to(1).set("number").to(9);
    for (name, code, mutations) in [
        ("inserting a row twice", AlreadyExists, vec![id(insert, "accounts", 1)]),
        ("updating a missing row", NotFound, vec![id(update, "accounts", 9)]),
        ("a mutation of an unknown table", NotFound, vec![id(insert, "nothing", 1)]),
        (
            "a mutation of an unknown column",
            NotFound,
            vec![id(insert, "accounts", 9).set("nothing").to(1)],
        ),
        (
            "NULL in a NOT NULL column",
            FailedPrecondition,
            vec![note.clone().set("note").to(nobody)],
        ),
        ("an omitted NOT NULL column", FailedPrecondition, vec![note]),
        (
            "too long a value",
            FailedPrecondition,
            vec![id(insert, "accounts", 9).set("owner").to("x".repeat(11))],
        ),
        (
            "a value of another type",
            FailedPrecondition,
            vec![id(insert, "accounts", 9).set("balance").to("much")],
        ),
        (
            "a commit timestamp in the future",
            FailedPrecondition,
            vec![entry(9).set("written").to(later)],
        ),
        (
            "a commit timestamp without the option",
            FailedPrecondition,
            vec![entry(9).set("plain").to(COMMIT_TIMESTAMP)],
        ),
    ] {
        let mutations = mutations.into_iter().map(|mutation| mutation.build()).collect();
        cases.refused(name, code, apply(client, mutations).await);
    }
    let both = vec![delete(1), account(update, 1, 1)];
    cases.refused(
        "updating a row that the transaction deleted",
        InvalidArgument,
        apply(client, both).await,
    );
}

async fn errors_of_reads(cases: &mut Cases, world: &World, client: &DatabaseClient) {
    use Code::{FailedPrecondition, InvalidArgument, NotFound};
    for (name, sql) in [
        ("SQL on an unknown table", "SELECT id FROM nothing"),
        ("SQL on an unknown column", "SELECT nothing FROM accounts"),
        ("a syntax error", "SELECT FROM WHERE"),
        ("a missing parameter", "SELECT id FROM accounts WHERE id = @id"),
        ("DML in a single-use transaction", "UPDATE accounts SET balance = 1 WHERE id = 1"),
    ] {
        cases.refused(name, InvalidArgument, query(client, sql).await);
    }
    let name = "reading a pending commit timestamp";
    cases.refused(name, InvalidArgument, pending_timestamp(client).await);
    let unknown = read(client, all("nothing", &["id"])).await;
    cases.refused("a read of an unknown table", NotFound, unknown);
    let keys = KeySet::builder().add_key(key![1_i64]).build();
    let half = ReadRequest::builder("entries", ["note"]).with_keys(keys).build();
    cases.refused("too few key parts", FailedPrecondition, read(client, half).await);
    let stale = TimestampBound::exact_staleness(Duration::from_secs(7_200));
    cases.refused("too stale a read", FailedPrecondition, balance_at(client, stale).await);
    let nothing = format!("{INSTANCE}/databases/nothing");
    cases.refused("an unknown database", NotFound, world.open(&nothing).await);
    let work = |transaction: ReadWriteTransaction| async move {
        transaction.execute_batch_update(BatchDml::builder().build()).await
    };
    let empty = client.read_write_transaction().build().run(work).await;
    cases.refused("an empty batch", InvalidArgument, empty);
}

async fn errors_of_administration(cases: &mut Cases, world: &World) {
    use Code::{AlreadyExists, FailedPrecondition, NotFound};
    let again = world.create_instance().await;
    cases.refused("an instance that is there already", AlreadyExists, again);
    let again = world.create_database("cases", [""; 0]).await;
    cases.refused("a database that is there already", AlreadyExists, again);
    let again = world.update_ddl("CREATE TABLE accounts (id INT64) PRIMARY KEY (id)").await;
    cases.refused("a table that is there already", FailedPrecondition, again);
    let missing = format!("{PROJECT}/instances/nothing");
    let missing = world.instances.get_instance().set_name(missing).send().await;
    cases.refused("a missing instance", NotFound, missing);
}

async fn stories(cases: &mut Cases) -> Story {
    // Everything comes from SPANNER_EMULATOR_HOST, administration over REST too.
    let spanner = Spanner::builder().build().await?;
    let instances = spanner.instance_admin_builder().build().await?;
    let databases = spanner.database_admin_builder().build().await?;
    let world = World { instances, databases, spanner };
    let story = an_instance_and_a_database(&world).await;
    cases.say("an instance and a database are created", story);
    cases.say("the schema is changed and reported", the_schema(&world).await);
    let client = &world.open(DATABASE).await?;
    cases.say("mutations of each kind", mutations_of_each_kind(client).await);
    cases.say("DML writes and counts its rows", dml(client).await);
    let name = "DML upserts, returns rows and takes a list";
    cases.say(name, upserts_and_lists(client).await);
    cases.say("batch DML stops at the error in the middle", batch_dml(client).await);
    cases.say("reads by key, by range and of all", reads(client).await);
    cases.say("strong, stale and exact-timestamp reads", bounds(client).await);
    let name = "a read-only transaction sees one snapshot while others write";
    cases.say(name, one_snapshot(client).await);
    cases.say("8 workers that contend lose no increment", eight_workers(client).await);
    cases.say("an abort is retried by the client itself", aborted_and_retried(client).await);
    cases.say("a rolled-back transaction leaves nothing", rolled_back(client).await);
    cases.say("commit timestamps in column and response", commit_timestamps(client).await);
    cases.say("every type comes back as it went", every_type(client).await);
    start_with(client, &[(1, "a", 10)]).await?;
    errors_of_mutations(cases, client).await;
    errors_of_reads(cases, &world, client).await;
    errors_of_administration(cases, &world).await;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut cases = Cases::default();
    if let Err(error) = stories(&mut cases).await {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    if cases.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
