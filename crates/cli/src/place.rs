//! The database and the table that a command works on.

use std::error::Error as _;
use std::time::Duration;

use spindle::google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use spindle::google_cloud_spanner::client::{
    DatabaseAdmin, DatabaseClient, Spanner, SpannerBuilderExt as _,
};
use spindle::{LockState, LockTable};
use tokio::time::timeout;

use crate::arguments::Common;
use crate::failure::{Code, Failure, Result, refused, unreachable};
use crate::readers::Readers;
use crate::record::Record;

/// Within this an operator has an answer, or knows that there is none.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The names of no rows begin so.
const NO_ROW: &str = "spindle:nothing:";

/// One connection, and the lock table behind it.
pub struct Place {
    pub database: String,
    pub table: String,
    pub client: DatabaseClient,
    pub locks: LockTable,
    spanner: Spanner,
}

impl Place {
    /// Connects, and fails within seconds where that can't be done.
    pub async fn reach(common: &Common) -> Result<Place> {
        let database = database(common)?;
        let connecting = connect(&database);
        let Ok(connected) = timeout(CONNECT_LIMIT, connecting).await else {
            let text = format!("database `{database}`: no answer within {CONNECT_LIMIT:?}");
            return Err(unreachable(text, false));
        };
        let (spanner, client) = connected?;
        let locks = LockTable::new(client.clone(), &common.table);
        Ok(Place { database, table: common.table.clone(), client, locks, spanner })
    }

    /// Connects, and asks for rows.
    pub async fn answering(common: &Common) -> Result<Place> {
        let place = Place::reach(common).await?;
        ask(&place.locks).await?;
        Ok(place)
    }

    /// Connects once more, for a command that runs on: this connection comes back by itself after Spanner has lost its
    /// session.
    pub async fn lasting(common: &Common) -> Result<Place> {
        let place = Place::reach(common).await?;
        let locks = LockTable::new(&place.database, &place.table);
        ask(&locks).await?;
        Ok(Place { locks, ..place })
    }

    /// Reads the rows whose names begin so, in pages of so many rows.
    pub async fn rows(&self, prefix: &str, page_rows: u32) -> Result<Vec<LockState>> {
        let mut listing = self.locks.list().prefix(prefix).page_rows(page_rows);
        let mut rows = Vec::new();
        while let Some(row) = listing.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }

    /// Reads the same, as the output shows them.
    pub async fn records(&self, prefix: &str, page_rows: u32) -> Result<Vec<Record>> {
        Ok(Readers::records(&self.rows(prefix, page_rows).await?))
    }

    /// Returns the client that administers the database: it makes tables, adds columns.
    pub async fn admin(&self, endpoint: Option<&str>) -> Result<DatabaseAdmin> {
        let Some(endpoint) = endpoint else {
            return Ok(LockTable::admin(&self.spanner).await?);
        };
        let endpoint = match endpoint.contains("://") {
            true => endpoint.to_string(),
            false if emulator().is_some() => format!("http://{endpoint}"),
            false => format!("https://{endpoint}"),
        };
        let builder = self.spanner.database_admin_builder().with_endpoint(&endpoint);
        builder.build().await.map_err(|error| {
            Failure::new(Code::Usage, format!("administration at {endpoint}: {error}"))
                .cure("pass --admin-endpoint HOST:PORT")
        })
    }
}

/// Returns the emulator to which every request goes, if one is named: an empty name is none.
pub fn emulator() -> Option<String> {
    std::env::var("SPANNER_EMULATOR_HOST").ok().filter(|host| !host.is_empty())
}

/// Asks for rows that nobody has: only then is the table known to be there, and to be readable.
pub async fn ask(table: &LockTable) -> spindle::Result<()> {
    // The first row may be no lock, such as a job's: then a listing reads on.
    table.list().prefix(NO_ROW).next().await.map(drop)
}

async fn connect(database: &str) -> Result<(Spanner, DatabaseClient)> {
    let builder = Spanner::builder().with_channel_pool(StaticChannelPoolConfig::new(1));
    let spanner = builder.build().await.map_err(|error| {
        let (mut text, mut cause) = (format!("spanner: {error}"), error.source());
        while let Some(error) = cause {
            let more = error.to_string();
            // Some errors repeat their causes.
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        unreachable(text, error.is_default_credentials())
    })?;
    let mut options = google_cloud_gax::options::RequestOptions::default();
    options.set_retry_policy(google_cloud_gax::retry_policy::NeverRetry);
    // Longer than the limit of the whole, which says what to do.
    options.set_attempt_timeout(CONNECT_LIMIT * 2);
    let client = spanner.database_client(database).with_request_options(options).build().await;
    Ok((spanner, client.map_err(|error| not_connected(database, &error))?))
}

fn not_connected(database: &str, error: &spindle::google_cloud_spanner::Error) -> Failure {
    use google_cloud_gax::error::rpc::Code as Status;
    let text = format!("database `{database}`: {}", spindle::told_by_client(error));
    let is_wrong = |code| matches!(code, Status::NotFound | Status::InvalidArgument);
    if error.status().is_some_and(|status| is_wrong(status.code)) {
        return Failure::new(Code::NoDatabase, text).cure(
            "see that the name is right (`gcloud spanner databases list --instance=INSTANCE`), or \
             create it with `gcloud spanner databases create`",
        );
    }
    refused(text, error)
}

/// Returns the database's name, if one is named as it should be.
pub fn database(common: &Common) -> Result<String> {
    let Some(database) = common.database.as_ref().filter(|name| !name.is_empty()) else {
        let name = "projects/PROJECT/instances/INSTANCE/databases/DATABASE";
        let without = if cfg!(feature = "demo") { "; `spindle demo` needs neither" } else { "" };
        return Err(Failure::new(Code::Usage, "no database is named")
            .cure(format!("pass --database {name} or set SPINDLE_DATABASE{without}")));
    };
    let parts: Vec<&str> = database.split('/').collect();
    let well_formed = matches!(
        parts[..],
        ["projects", project, "instances", instance, "databases", name]
            if ![project, instance, name].contains(&"")
    );
    if !well_formed {
        return Err(Failure::new(
            Code::Usage,
            format!("database `{database}`: no such form of name"),
        )
        .cure("write projects/PROJECT/instances/INSTANCE/databases/DATABASE"));
    }
    Ok(database.clone())
}
