//! The Spanner of an example: the embedded one, or the emulator that `SPANNER_EMULATOR_HOST` names.

use google_cloud_lro::Poller as _;
use spindle::LockTable;
use spindle::google_cloud_spanner::client::Spanner;
use spindle_emulator::Emulator;

type Failure = Box<dyn std::error::Error + Send + Sync>;

pub struct Server {
    endpoint: String,
    /// It ends with this.
    _embedded: Option<Emulator>,
}

impl Server {
    /// Starts a server with this database; of one that runs, the database is there and empty.
    pub async fn start(database: &str, ddl: &str) -> Result<Server, Failure> {
        let Ok(host) = std::env::var("SPANNER_EMULATOR_HOST") else {
            let embedded = Emulator::start().await?;
            embedded.create_database(database, ddl).await?;
            return Ok(Server { endpoint: embedded.endpoint(), _embedded: Some(embedded) });
        };
        let admin = LockTable::admin(&Spanner::builder().build().await?).await?;
        let statements = ddl.split(';').map(str::trim).filter(|statement| !statement.is_empty());
        let change = admin.update_database_ddl().set_database(database);
        change.set_statements(statements).poller().until_done().await?;
        Ok(Server { endpoint: format!("http://{host}"), _embedded: None })
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }
}
