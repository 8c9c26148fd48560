use google_cloud_spanner::client::DatabaseClient;

use super::connection::Connection;

/// A Spanner database: a path, for which the library makes its own connections, or a client that
/// the service has made.
///
/// Nobody has to name this type but for an endpoint: a path (`&str` or `String`) and a
/// [`DatabaseClient`] become one by themselves. Making one sends nothing and can't fail.
///
/// ```
/// use spindle::{Database, LockTable};
///
/// let path = "projects/p/instances/i/databases/d";
/// let locks = LockTable::new(path, "locktable");
/// let elsewhere = LockTable::new(Database::at("http://127.0.0.1:9010", path), "locktable");
///
/// let malformed = LockTable::new("d", "locktable").lock("billing").build().unwrap_err();
/// assert!(malformed.is_config());
/// ```
///
/// # A path: for services
///
/// `projects/P/instances/I/databases/D`. The library connects on first use, with the credentials of
/// the environment. It goes to `SPANNER_EMULATOR_HOST` where that is set, unless an endpoint was
/// given. The time counts against the limit of the call that waits for it.
///
/// A busy service can't starve such a connection. One whose session is lost, over which nothing is
/// heard, or whose credentials failed for good or are refused, is replaced. The next one goes on with
/// the token of the last while that is valid, also where the metadata server is away. Each runtime that
/// uses the database gets a connection of its own. So a table in a `static` works from one runtime after
/// another.
///
/// # A client: for what only that client has
///
/// Examples are credentials of its own, or a database role. The locks share its channels and its
/// session with the service, and it dies with the runtime that made it. The library can't replace
/// it. If its session is lost, or its connections are dead, only a restart of the process helps.
/// Once nothing has answered on it for ten leases, and two minutes at least,
/// [`is_alive`](crate::health::Health::is_alive) is false, so that a liveness probe does that.
#[derive(Clone, Debug)]
pub struct Database(Origin);

#[derive(Clone, Debug)]
enum Origin {
    Path { path: String, endpoint: Option<String>, is_side_by_side: bool },
    Client(Box<DatabaseClient>),
}

impl Database {
    /// Returns the database of that path behind an endpoint such as `http://127.0.0.1:9010`: for
    /// tests, and for a Spanner that is not Google's.
    ///
    /// A malformed endpoint or path is refused by [`build`](crate::LockBuilder::build) and by every
    /// call.
    pub fn at(endpoint: impl Into<String>, path: impl Into<String>) -> Database {
        let (path, endpoint) = (path.into(), Some(endpoint.into()));
        Database(Origin::Path { path, endpoint, is_side_by_side: false })
    }

    /// Sends transactions side by side, although the endpoint speaks plain text: for a proxy before Cloud
    /// Spanner, and for the embedded Spanner.
    ///
    /// Otherwise the library takes whatever speaks plain text, or is named by `SPANNER_EMULATOR_HOST`, for an
    /// emulator, and sends it one transaction at a time. Google's emulator ends the earlier transaction of a
    /// session when another begins. For a client that was given this changes nothing.
    ///
    /// ```
    /// use spindle::{Database, LockTable};
    ///
    /// let database = Database::at("http://127.0.0.1:9010", "projects/p/instances/i/databases/d");
    /// let locks = LockTable::new(database.side_by_side(), "locktable");
    /// ```
    pub fn side_by_side(mut self) -> Database {
        if let Origin::Path { is_side_by_side, .. } = &mut self.0 {
            *is_side_by_side = true;
        }
        self
    }

    pub(crate) fn connection(self) -> Connection {
        match self.0 {
            Origin::Path { path, endpoint, is_side_by_side } => {
                Connection::own(path, endpoint, is_side_by_side)
            }
            Origin::Client(client) => Connection::given(*client),
        }
    }
}

/// A path: the library makes its own connections.
impl From<String> for Database {
    fn from(path: String) -> Database {
        Database(Origin::Path { path, endpoint: None, is_side_by_side: false })
    }
}

/// A path: the library makes its own connections.
impl From<&String> for Database {
    fn from(path: &String) -> Database {
        Database::from(path.clone())
    }
}

/// A path: the library makes its own connections.
impl From<&str> for Database {
    fn from(path: &str) -> Database {
        Database::from(path.to_string())
    }
}

/// A client that the service has made.
impl From<DatabaseClient> for Database {
    fn from(client: DatabaseClient) -> Database {
        Database(Origin::Client(Box::new(client)))
    }
}

/// A client that the service has made: the same channels and session.
impl From<&DatabaseClient> for Database {
    fn from(client: &DatabaseClient) -> Database {
        Database::from(client.clone())
    }
}
