//! The Spanner of an example: the embedded one, or the emulator that `SPANNER_EMULATOR_HOST` names.

use google_cloud_lro::Poller as _;
use spindle::LockTable;
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle_emulator::Emulator;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub const DATABASE: &str = "projects/demo/instances/demo/databases/demo";

pub struct Server {
    endpoint: String,
    /// It ends with this.
    _embedded: Option<Emulator>,
}

impl Server {
    /// Starts a server with the lock table and this one; of one that runs, the database is there and empty.
    pub async fn start(table: &str) -> Result<Server, Failure> {
        let ddl = format!("{};\n{table}", LockTable::ddl(spindle::Ddl::GoogleSql));
        let Ok(host) = std::env::var("SPANNER_EMULATOR_HOST") else {
            let embedded = Emulator::start().await?;
            embedded.create_database(DATABASE, &ddl).await?;
            return Ok(Server { endpoint: embedded.endpoint(), _embedded: Some(embedded) });
        };
        let admin = LockTable::admin(&Spanner::builder().build().await?).await?;
        let statements = ddl.split(';').map(str::trim).filter(|statement| !statement.is_empty());
        let change = admin.update_database_ddl().set_database(DATABASE);
        change.set_statements(statements).poller().until_done().await?;
        Ok(Server { endpoint: format!("http://{host}"), _embedded: None })
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }
}

pub async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    Ok(spanner.database_client(DATABASE).build().await?)
}
