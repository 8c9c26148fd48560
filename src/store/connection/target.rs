use std::time::Duration;

use google_cloud_auth::credentials::{Builder, Credentials};
use google_cloud_gax::error::CredentialsError;
use google_cloud_gax::options::RequestOptions;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use google_cloud_spanner::client::{DatabaseClient, Spanner, SpannerBuilderExt as _};
use tokio::time::timeout;

use super::credentials::SharedCredentials;
use crate::error::{self, Error, Missing, Result};

/// The limit of a request that no loop sends.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// The places that the client goes to where it is given none.
const EMULATOR: &str = "SPANNER_EMULATOR_HOST";
const GOOGLES: &str = "spanner.googleapis.com";

/// Where a connection leads.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) database: String,
    endpoint: Option<String>,
}

impl Target {
    /// Refuses a database name or an endpoint that can't work.
    pub(super) fn new(database: String, endpoint: Option<String>) -> Result<Target> {
        check_database(&database)?;
        if let Some(endpoint) = &endpoint {
            check_endpoint(endpoint)?;
        }
        Ok(Target { database, endpoint })
    }

    pub(super) fn connecting(&self) -> String {
        let place = match (&self.endpoint, emulator()) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, Some(endpoint)) => format!("{EMULATOR}, which is {endpoint}"),
            (None, None) => GOOGLES.to_string(),
        };
        format!("database `{}`: connect to {place}", self.database)
    }

    /// Connects by these credentials in `limit` at most: a token, DNS, TLS and a session.
    pub(super) async fn connect(
        &self,
        limit: Duration,
        shared: &SharedCredentials,
    ) -> Result<DatabaseClient> {
        if self.is_anonymous() {
            return self.connect_by(None, limit).await;
        }
        let connect = |credentials| self.connect_by(Some(credentials), limit);
        shared.connect(|| self.credentials(), connect).await
    }

    /// Returns true if the client asks for no credentials: over plain text, and to an emulator.
    pub(super) fn is_anonymous(&self) -> bool {
        match (&self.endpoint, emulator()) {
            (Some(endpoint), emulator) => {
                !is_tls(endpoint) || emulator.is_some_and(|it| it == *endpoint)
            }
            (None, emulator) => emulator.is_some(),
        }
    }

    /// Finds the credentials of the environment, as the client does by itself.
    fn credentials(&self) -> Result<Credentials> {
        Builder::default().build().map_err(|error| {
            let error = CredentialsError::from_source(false, error);
            let source = google_cloud_spanner::Error::authentication(error);
            Error::from_read(self.connecting(), source)
        })
    }

    async fn connect_by(
        &self,
        credentials: Option<Credentials>,
        limit: Duration,
    ) -> Result<DatabaseClient> {
        let mut options = RequestOptions::default();
        options.set_retry_policy(NeverRetry);
        options.set_attempt_timeout(limit);
        // One channel is enough for heartbeats, and a larger pool sends queries to warm itself up.
        let mut builder = Spanner::builder().with_channel_pool(StaticChannelPoolConfig::new(1));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(credentials) = credentials {
            builder = builder.with_credentials(credentials);
        }
        let connecting = async {
            let spanner = builder.build().await.map_err(|error| self.not_built(&error))?;
            let client = spanner.database_client(&self.database).with_request_options(options);
            client.build().await.map_err(|error| self.not_opened(error))
        };
        match timeout(limit, connecting).await {
            Ok(client) => client,
            Err(_) => Err(Error::timed_out(self.connecting(), limit)),
        }
    }

    /// Nothing was sent: the endpoint, or what the environment says of it, is at fault.
    fn not_built(&self, error: &google_cloud_gax::client_builder::Error) -> Error {
        Error::config(format!("{}: {}", self.connecting(), error::with_causes(error)))
    }

    fn not_opened(&self, source: google_cloud_spanner::Error) -> Error {
        match Missing::named_in(&source) {
            Some(Missing::Database) => {
                Error::config(format!("database `{}` is not there: {source}", self.database))
            }
            _ => Error::from_read(self.connecting(), source),
        }
    }
}

pub(super) fn emulator() -> Option<String> {
    std::env::var(EMULATOR).ok().filter(|endpoint| !endpoint.is_empty())
}

/// Accepts `projects/P/instances/I/databases/D`.
fn check_database(database: &str) -> Result<()> {
    let parts: Vec<&str> = database.split('/').collect();
    let is_id = |id: &str| !id.is_empty() && !id.contains(|c: char| c.is_whitespace());
    match parts[..] {
        ["projects", project, "instances", instance, "databases", name]
            if is_id(project) && is_id(instance) && is_id(name) =>
        {
            Ok(())
        }
        _ => Err(Error::config(format!(
            "database name `{database}`: expected `projects/P/instances/I/databases/D`"
        ))),
    }
}

/// Returns true for a URI with the scheme `https`, in capitals or not.
fn is_tls(endpoint: &str) -> bool {
    endpoint.parse::<http::Uri>().is_ok_and(|uri| uri.scheme() == Some(&http::uri::Scheme::HTTPS))
}

/// Accepts a URI with a scheme that the client can speak, and a host.
fn check_endpoint(endpoint: &str) -> Result<()> {
    let refuse = |rule: &str| {
        Err(Error::config(format!(
            "endpoint `{endpoint}`: {rule}; expected `http://HOST:PORT` or `https://HOST`"
        )))
    };
    let Ok(uri) = endpoint.parse::<http::Uri>() else { return refuse("not a URI") };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return refuse("a scheme other than `http` or `https`"),
        None => return refuse("no scheme"),
    }
    if uri.host().is_none_or(str::is_empty) { refuse("no host") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_in_full() {
        for name in ["mydb", "", "projects/p/instances/i/databases/", "projects/p/instances/i"] {
            let error = check_database(name).unwrap_err();
            assert!(error.is_config() && error.to_string().contains("expected"), "{error}");
        }
        check_database("projects/example.com:p/instances/i/databases/d").unwrap();
    }

    #[test]
    fn only_an_endpoint_in_plain_text_goes_without_credentials() {
        let is_anonymous = |endpoint: &str| {
            let database = "projects/p/instances/i/databases/d".to_string();
            Target::new(database, Some(endpoint.to_string())).unwrap().is_anonymous()
        };
        assert!(is_anonymous("http://h") && is_anonymous("HTTP://h"));
        assert!(!is_anonymous("https://h") && !is_anonymous("HTTPS://h"));
    }

    #[test]
    fn an_endpoint_has_a_scheme_and_a_host() {
        for (endpoint, rule) in [
            ("127.0.0.1:9010", "no scheme"),
            ("localhost:9010", "no scheme"),
            ("localhost", "no scheme"),
            ("unix:///tmp/socket", "not a URI"),
            ("ftp://host", "scheme other"),
            ("http://", "not a URI"),
            ("http:// a", "not a URI"),
        ] {
            let error = check_endpoint(endpoint).unwrap_err();
            assert!(error.is_config() && error.to_string().contains(rule), "{error}");
        }
        for endpoint in
            ["http://127.0.0.1:9010", "https://spanner.googleapis.com", "http://[::1]:1"]
        {
            check_endpoint(endpoint).unwrap();
        }
    }
}
