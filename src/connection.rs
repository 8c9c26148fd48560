use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::options::RequestOptions;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use google_cloud_spanner::client::{DatabaseClient, Spanner, SpannerBuilderExt as _};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::error::{Error, Kind, Result};

/// Making a connection includes credentials, DNS, TLS and a session, so it has more time than any
/// one request; the client itself would go on for ever.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How requests reach the database.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Origin>);

#[derive(Debug)]
enum Origin {
    /// The caller's client: shared with its service, and never replaced.
    Given(DatabaseClient),
    /// Made here on first use, and made again when its session is lost.
    Own { database: String, endpoint: Option<String>, current: Mutex<Current> },
}

#[derive(Debug, Default)]
struct Current {
    client: Option<DatabaseClient>,
    generation: u64,
}

/// A client, and which one it is of those that a connection has had.
pub(crate) struct Leased {
    pub(crate) client: DatabaseClient,
    generation: u64,
}

impl Connection {
    pub(crate) fn given(client: DatabaseClient) -> Connection {
        Connection(Arc::new(Origin::Given(client)))
    }

    pub(crate) fn own(database: String, endpoint: Option<String>) -> Connection {
        Connection(Arc::new(Origin::Own { database, endpoint, current: Mutex::default() }))
    }

    /// Another connection to the same place, for a runtime of its own; none from a given client,
    /// whose channels live on the caller's runtime.
    pub(crate) fn another(&self) -> Option<Connection> {
        match &*self.0 {
            Origin::Given(_) => None,
            Origin::Own { database, endpoint, .. } => {
                Some(Connection::own(database.clone(), endpoint.clone()))
            }
        }
    }

    pub(crate) async fn client(&self) -> Result<Leased> {
        match &*self.0 {
            Origin::Given(client) => Ok(Leased { client: client.clone(), generation: 0 }),
            Origin::Own { database, endpoint, current } => {
                let mut current = current.lock().await;
                if let Some(client) = &current.client {
                    return Ok(Leased { client: client.clone(), generation: current.generation });
                }
                let client = connect(database, endpoint.as_deref()).await?;
                current.client = Some(client.clone());
                current.generation += 1;
                Ok(Leased { client, generation: current.generation })
            }
        }
    }

    /// Takes note that the session of `lost` is gone; the next request makes a new one.
    ///
    /// Says how to go on where there is none to be made.
    pub(crate) async fn session_lost(&self, lost: &Leased) -> Error {
        let whose = match &*self.0 {
            Origin::Given(_) => "the client that was given".to_string(),
            Origin::Own { database, current, .. } => {
                let mut current = current.lock().await;
                if current.generation == lost.generation {
                    current.client = None;
                }
                format!("the connection to `{database}`")
            }
        };
        Error::new(Kind::SessionLost { whose })
    }
}

async fn connect(database: &str, endpoint: Option<&str>) -> Result<DatabaseClient> {
    let doing = || format!("database `{database}`: connect");
    let mut options = RequestOptions::default();
    options.set_retry_policy(NeverRetry);
    options.set_attempt_timeout(CONNECT_LIMIT);
    // One channel is enough for heartbeats, and a larger pool sends queries to warm itself up.
    let mut builder = Spanner::builder().with_channel_pool(StaticChannelPoolConfig::new(1));
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let connecting = async {
        let spanner = builder.build().await.map_err(|error| {
            let denied = error.is_default_credentials();
            let source = google_cloud_spanner::Error::connect(error);
            let doing = doing();
            Error::new(if denied {
                Kind::Denied { doing, source }
            } else {
                Kind::Failed { doing, source }
            })
        })?;
        let client = spanner.database_client(database).with_request_options(options);
        client.build().await.map_err(|error| Error::from_read(doing(), error))
    };
    match timeout(CONNECT_LIMIT, connecting).await {
        Ok(client) => client,
        Err(_) => Err(Error::timed_out(doing(), CONNECT_LIMIT)),
    }
}
