//! Saying at once what is wrong with a lock table, for services that want to fail at start.

use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::transaction::TimestampBound;
use spindle_protocol::{Cell, Column, Timestamp, Write, WriteKind};
use tokio::time::timeout;

use super::pages::Pages;
use crate::error::{Error, Kind, Result};
use crate::names::check_table_name;
use crate::store::{
    REQUEST_LIMIT, Table, despite_others, read_rows, row, schema, transact, without_read_timestamp,
};

/// A name that no lock can have, since it looks like a takeover row.
const PROBE_NAME: &str = "spindle-check_0000000000000000000";

impl Table {
    /// Says exactly what is wrong with the table that is there, including what writing needs. Returns the
    /// locks whose holder has not written its lease.
    pub(crate) async fn check(&self) -> Result<Vec<String>> {
        check_table_name(&self.name)?;
        self.probe_read_timestamp().await?;
        schema::check(&self.spanner.connection, &self.name).await?;
        let is_refused = [Code::InvalidArgument, Code::FailedPrecondition].map(Some);
        let refused = |error: Error, what: &str| {
            if is_refused.contains(&error.code()) {
                Error::new(Kind::Schema(format!("table `{}` {what}: {error}", self.name)))
            } else {
                error
            }
        };
        // The columns are in order, so it is the key that Spanner refuses.
        let key = "can't be read by a key of one string; expected `PRIMARY KEY (name)`";
        let read = despite_others(|| self.read(PROBE_NAME, REQUEST_LIMIT)).await;
        read.map_err(|error| refused(error, key))?;
        let written = despite_others(|| self.probe_write()).await;
        written.map_err(|error| refused(error, "does not take what a holder writes"))?;
        self.holders_without_lease().await
    }

    /// Refuses a server that gives no read timestamps, before anything else is asked: it may lack an
    /// information schema, too.
    async fn probe_read_timestamp(&self) -> Result<()> {
        let timed = self.spanner.connection.client(REQUEST_LIMIT).await?;
        let request = self.spanner.row_request(["name"], PROBE_NAME, timed.limit);
        let reading = read_rows(&timed.client, TimestampBound::strong(), request);
        match timeout(timed.limit, reading).await {
            Ok(Ok((_, None))) => {
                Err(without_read_timestamp(&format!("table `{}`: read a row", self.name)))
            }
            // A failure here repeats below, where its reason can be told.
            Ok(Ok((_, Some(_))) | Err(_)) | Err(_) => Ok(()),
        }
    }

    /// Returns the locks whose row names a holder and no lease.
    async fn holders_without_lease(&self) -> Result<Vec<String>> {
        let (mut found, mut pages) = (Vec::new(), Pages::all());
        while let Some((rows, _)) = pages.next(self).await? {
            let held = rows.into_iter().filter(|full| {
                !full.is_takeover()
                    && full.row().heartbeat != Timestamp::EPOCH
                    && full.row().lease.is_none()
            });
            found.extend(held.map(|full| full.key));
        }
        Ok(found)
    }

    /// Updates a row that can't exist: it never changes anything, but tells what writing needs.
    async fn probe_write(&self) -> Result<()> {
        let doing = format!("table `{}`: write", self.name);
        let timed = self.spanner.connection.client(REQUEST_LIMIT).await?;
        let keys = KeySet::builder().add_key(key![PROBE_NAME]).build();
        let request = row::request(&self.name, ["name"], keys, None, timed.limit);
        let cells = Column::ALL.map(|column| match column {
            Column::Heartbeat | Column::Token => (column, Cell::CommitTimestamp),
            Column::Writer => (column, Cell::Text(String::new())),
            Column::LeaseMs | Column::Info | Column::Displaced | Column::Next => {
                (column, Cell::Null)
            }
        });
        let (key, kind) = (PROBE_NAME.to_string(), WriteKind::Update);
        let write = Write { key, kind, cells: cells.into() };
        let write = row::mutation(&self.name, write);
        let decide = move |_| vec![write.clone()];
        match transact(&timed.client, doing, request, timed.limit, decide).await {
            Err(error) if error.code() != Some(Code::NotFound) => Err(error),
            _ => Ok(()),
        }
    }
}
