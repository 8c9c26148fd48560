//! Lock rows as the client reads and writes them.

use std::time::Duration;

use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::result::{ResultSet, Row};
use google_cloud_spanner::value::Timestamp as ClientTimestamp;
use spindle_protocol::{Cell, StoredRow, Timestamp, Write, WriteKind, Writer};

/// Has Spanner write the transaction's commit timestamp; see Spanner's documentation.
const COMMIT_TIMESTAMP: &str = "spanner.commit_timestamp()";

/// As a heartbeat: released.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Returns a read that is sent once.
pub(crate) fn request<'a>(
    table: &str,
    columns: impl IntoIterator<Item = &'a str>,
    keys: KeySet,
    rows_max: Option<i64>,
    limit: Duration,
) -> ReadRequest {
    let columns: Vec<&str> = columns.into_iter().collect();
    let mut request = ReadRequest::builder(table, columns)
        .with_keys(keys)
        .with_retry_policy(NeverRetry)
        .with_attempt_timeout(limit);
    if let Some(rows_max) = rows_max {
        request = request.set_limit(rows_max);
    }
    request.build()
}

/// All the rows, whichever of their columns were asked for.
pub(crate) async fn stored_rows(
    rows: &mut ResultSet,
) -> Result<Vec<StoredRow>, google_cloud_spanner::Error> {
    let (mut stored, mut asked) = (Vec::new(), None);
    while let Some(found) = rows.next().await.transpose()? {
        stored.push(decode(&found, asked.get_or_insert_with(|| columns(rows)))?);
    }
    Ok(stored)
}

fn columns(rows: &ResultSet) -> Vec<String> {
    rows.metadata().column_names().to_vec()
}

fn decode(found: &Row, columns: &[String]) -> Result<StoredRow, google_cloud_spanner::Error> {
    // Spanner tells a column as the table has it, whatever case that is in.
    let place = |column: &str| columns.iter().position(|name| name.eq_ignore_ascii_case(column));
    let time = |column: &str| -> Result<Option<Timestamp>, google_cloud_spanner::Error> {
        let time = place(column).map(|at| found.get::<Option<ClientTimestamp>>(at));
        Ok(time.transpose()?.flatten().map(timestamp))
    };
    let text = |column: &str| -> Result<Option<String>, google_cloud_spanner::Error> {
        Ok(place(column).map(|at| found.get(at)).transpose()?.flatten())
    };
    Ok(StoredRow {
        key: text("name")?.unwrap_or_default(),
        heartbeat: time("heartbeat")?,
        token: time("token")?,
        writer: Writer::from(text("writer")?.unwrap_or_default().as_str()),
        lease_ms: place("lease_ms").map(|at| found.get(at)).transpose()?.flatten(),
        info: text("info")?,
        displaced: time("displaced")?,
        next: text("next")?,
    })
}

/// Returns a write as the client sends it.
pub(crate) fn mutation(table: &str, write: Write) -> Mutation {
    let builder = match write.kind {
        WriteKind::Insert => Mutation::new_insert_builder(table),
        WriteKind::Update => Mutation::new_update_builder(table),
        WriteKind::InsertOrUpdate => Mutation::new_insert_or_update_builder(table),
        WriteKind::Delete => {
            return Mutation::delete(table, KeySet::builder().add_key(key![write.key]).build());
        }
    };
    let builder = builder.set("name").to(write.key);
    let builder = write.cells.into_iter().fold(builder, |builder, (column, cell)| {
        let builder = builder.set(column.name());
        match cell {
            Cell::CommitTimestamp => builder.to(COMMIT_TIMESTAMP),
            Cell::Epoch => builder.to(EPOCH),
            Cell::Time(time) => builder.to(client_timestamp(time)),
            Cell::Null => builder.to(None::<String>),
            Cell::Text(text) => builder.to(text),
            Cell::Milliseconds(milliseconds) => builder.to(milliseconds),
        }
    });
    builder.build()
}

pub(crate) fn timestamp(timestamp: ClientTimestamp) -> Timestamp {
    let nanoseconds =
        i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos());
    // Spanner's years 1 to 9999 exceed 64 bits of nanoseconds; no heartbeat or token is there.
    let nearest = nanoseconds.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Timestamp(i64::try_from(nearest).unwrap_or(i64::MAX))
}

/// Returns the time as the client has it, which has room for all of them.
pub(crate) fn client_timestamp(time: Timestamp) -> Option<ClientTimestamp> {
    const SECOND: i64 = 1_000_000_000;
    let nanoseconds = i32::try_from(time.0.rem_euclid(SECOND)).ok()?;
    ClientTimestamp::new(time.0.div_euclid(SECOND), nanoseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_written_as_it_was_read() {
        for time in [0, -1, 1_795_000_000_123_456_789, i64::MIN, i64::MAX].map(Timestamp) {
            assert_eq!(client_timestamp(time).map(timestamp), Some(time));
        }
    }

    #[test]
    fn timestamps_outside_64_bits_of_nanoseconds_are_cut_not_wrapped() {
        let last = ClientTimestamp::try_from("9999-12-31T23:59:59.999999999Z").unwrap();
        assert_eq!(timestamp(last), Timestamp(i64::MAX));
        let first = ClientTimestamp::try_from("0001-01-01T00:00:00Z").unwrap();
        assert_eq!(timestamp(first), Timestamp(i64::MIN));
        let before = ClientTimestamp::try_from("1969-12-31T23:59:59.5Z").unwrap();
        assert_eq!(timestamp(before), Timestamp(-500_000_000));
    }
}
