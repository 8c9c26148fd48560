//! The database under examination, and the tables in it.

use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_lro::Poller as _;
use spindle::LockTable;
use spindle::google_cloud_spanner::client::{DatabaseAdmin, DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use tokio::time::{Instant, sleep, timeout};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Part of the names of tables that somebody else has made.
pub const MADE: &str = "made";

/// The columns that a table of four lacks.
const NEW_COLUMNS: [&str; 4] = ["lease_ms", "info", "displaced", "next"];

/// Long enough for a schema change of Cloud Spanner.
const TIME_LIMIT: Duration = Duration::from_secs(180);

const POINTS: &str = "CREATE TABLE spindle_test_points (
  id STRING(64) NOT NULL,
  a TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  b TIMESTAMP OPTIONS (allow_commit_timestamp=true),
  n INT64,
) PRIMARY KEY (id)";

const POINTS_POSTGRESQL: &str = "CREATE TABLE spindle_test_points (
  id varchar(64) NOT NULL PRIMARY KEY,
  a spanner.commit_timestamp,
  b spanner.commit_timestamp,
  n bigint
)";

pub struct Place {
    database: String,
    pub client: DatabaseClient,
    /// Another process, as it were: a client with a connection of its own.
    pub observer: DatabaseClient,
    /// Part of the names of the tables and of what is in them.
    part: String,
    /// None where somebody else has made the tables.
    admin: Option<DatabaseAdmin>,
}

/// Returns the cost of the examination, in words.
pub fn cost(database: &str) -> String {
    let tables = if is_made() {
        "in two tables that are there"
    } else {
        "in three tables that it makes and removes"
    };
    format!(
        "any_spanner: examines {database}, {tables}: about 500 requests on a few dozen rows, for half a minute, \
         or some minutes where a change of the schema takes long"
    )
}

/// Returns true if somebody else has made the tables.
fn is_made() -> bool {
    std::env::var("SPINDLE_TEST_TABLES").is_ok_and(|it| it == MADE)
}

/// The statements that make both tables, in GoogleSQL.
pub fn ddl(part: &str) -> String {
    statements(part, LockTable::ddl(spindle::Ddl::GoogleSql), POINTS).join(";\n\n") + ";"
}

fn statements(part: &str, locks: &str, points: &str) -> [String; 2] {
    let locks = locks.replace("locktable", &format!("spindle_test_locks_{part}"));
    [locks, points.replace("spindle_test_points", &format!("spindle_test_points_{part}"))]
}

impl Place {
    pub async fn make(database: &str) -> Result<Place, Failure> {
        let spanner = Spanner::builder().build().await?;
        let client = timeout(TIME_LIMIT, spanner.database_client(database).build()).await??;
        let other = Spanner::builder().build().await?;
        let observer = timeout(TIME_LIMIT, other.database_client(database).build()).await??;
        let (part, admin) = if is_made() {
            (MADE.to_string(), None)
        } else {
            // Names of its own: two examinations of one database don't meet.
            (format!("{:016x}", rand::random::<u64>()), Some(LockTable::admin(&spanner).await?))
        };
        let place = Place { database: database.to_string(), client, observer, part, admin };
        if let Some(admin) = &place.admin {
            place.table().create(admin, database).await?;
            let points = if place.is_postgresql().await? { POINTS_POSTGRESQL } else { POINTS };
            let [_, points] = statements(&place.part, "", points);
            place.change_schema(admin, vec![points]).await?;
        }
        Ok(place)
    }

    async fn is_postgresql(&self) -> Result<bool, Failure> {
        let dialect = "SELECT option_value FROM information_schema.database_options \
                       WHERE option_name = 'database_dialect'";
        let mut rows = self.client.single_use().build().execute_query(dialect).await?;
        let row = rows.next().await.transpose()?.ok_or("the database tells no dialect")?;
        Ok(row.get::<String>(0)? == "POSTGRESQL")
    }

    /// Leaves nothing behind of what was made.
    pub async fn remove(&self) -> Result<(), Failure> {
        let Some(admin) = &self.admin else { return Ok(()) };
        let drops = [self.locks(), self.points()].map(|table| format!("DROP TABLE {table}"));
        self.change_schema(admin, drops.to_vec()).await
    }

    async fn change_schema(
        &self,
        admin: &DatabaseAdmin,
        statements: Vec<String>,
    ) -> Result<(), Failure> {
        let change =
            admin.update_database_ddl().set_database(&self.database).set_statements(statements);
        timeout(TIME_LIMIT, change.poller().until_done()).await??;
        Ok(())
    }

    /// Makes a lock table of four columns; none where somebody else has made the tables.
    pub async fn make_old_table(&self) -> Result<Option<LockTable>, Failure> {
        let Some(admin) = &self.admin else { return Ok(None) };
        let ddl = match self.is_postgresql().await? {
            true => LockTable::ddl(spindle::Ddl::PostgreSql),
            false => LockTable::ddl(spindle::Ddl::GoogleSql),
        };
        let is_old = |line: &&str| NEW_COLUMNS.iter().all(|column| !line.contains(column));
        let lines: Vec<&str> = ddl.lines().filter(is_old).collect();
        let statement = lines.join("\n").replace("locktable", &self.old_locks());
        self.change_schema(admin, vec![statement]).await?;
        Ok(Some(LockTable::new(&self.database, self.old_locks())))
    }

    pub async fn upgrade(&self, table: &LockTable) -> Result<(), Failure> {
        let admin = self.admin.as_ref().ok_or("it has no administration")?;
        let added = timeout(TIME_LIMIT, table.upgrade(admin, &self.database)).await??;
        let is_all = added == NEW_COLUMNS;
        if is_all { Ok(()) } else { Err(format!("an upgrade added {added:?}").into()) }
    }

    pub async fn remove_old_table(&self) -> Result<(), Failure> {
        let Some(admin) = &self.admin else { return Ok(()) };
        self.change_schema(admin, vec![format!("DROP TABLE {}", self.old_locks())]).await
    }

    fn old_locks(&self) -> String {
        format!("spindle_test_old_{}", self.part)
    }

    /// The lock table, by a connection of its own that is found in the environment.
    pub fn table(&self) -> LockTable {
        LockTable::new(&self.database, self.locks())
    }

    pub fn database(&self) -> &str {
        &self.database
    }

    pub fn locks(&self) -> String {
        format!("spindle_test_locks_{}", self.part)
    }

    pub fn points(&self) -> String {
        format!("spindle_test_points_{}", self.part)
    }

    /// Writes rows, and again while the server says that another's transaction took the turn. Google's
    /// emulator, which runs one at a time, says so of a commit in several ways.
    pub async fn write(&self, rows: Vec<Mutation>) -> Result<(), Failure> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let written = self.client.write_only_transaction().build().write(rows.clone()).await;
            match written.map_err(|error| (error.status().map(|it| it.code), error)) {
                Ok(_) => return Ok(()),
                Err((Some(Code::Aborted | Code::NotFound | Code::FailedPrecondition), _))
                    if Instant::now() < deadline =>
                {
                    sleep(Duration::from_millis(50)).await;
                }
                Err((_, error)) => return Err(error.into()),
            }
        }
    }

    /// A row of the points' table: both times, and the number.
    pub async fn point(&self, client: &DatabaseClient, id: &str) -> Result<Option<Point>, Failure> {
        let mut rows = client.single_use().build().execute_read(self.read(id)).await?;
        Point::next(&mut rows).await
    }

    pub fn read(&self, id: &str) -> ReadRequest {
        let keys = KeySet::builder().add_key(key![id.to_string()]).build();
        ReadRequest::builder(self.points(), vec!["a", "b", "n"]).with_keys(keys).build()
    }

    /// A write of a point that may be there: its time `a`, by the commit, and its number.
    pub fn set(&self, id: &str, n: i64) -> Mutation {
        let write = Mutation::new_insert_or_update_builder(self.points());
        write.set("id").to(id).set("a").to(COMMIT_TIMESTAMP).set("n").to(n).build()
    }
}

/// Has Spanner write the commit's timestamp.
pub const COMMIT_TIMESTAMP: &str = "spanner.commit_timestamp()";

/// The content of a row of the points' table; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub a: Option<i128>,
    pub b: Option<i128>,
    pub n: Option<i64>,
}

impl Point {
    pub async fn next(
        rows: &mut spindle::google_cloud_spanner::result::ResultSet,
    ) -> Result<Option<Point>, Failure> {
        let Some(row) = rows.next().await.transpose()? else { return Ok(None) };
        let time = |column: &str| -> Result<Option<i128>, Failure> {
            Ok(row.get::<Option<Timestamp>>(column)?.map(nanoseconds))
        };
        Ok(Some(Point { a: time("a")?, b: time("b")?, n: row.get("n")? }))
    }
}

pub fn nanoseconds(timestamp: Timestamp) -> i128 {
    i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos())
}
