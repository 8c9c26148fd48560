//! The state of one lock.

use spindle_protocol::{Row, StoredRow, Timestamp, takeover_key};
use tokio::time::timeout;

use super::state::{LockState, Obstacle};
use crate::error::Result;
use crate::store::requests::{self, Request};
use crate::store::{REQUEST_LIMIT, Table, all_columns, row, without_read_timestamp};

/// Returns the state of one lock, with what stands in its way.
pub(crate) async fn inspect(table: &Table, name: &str) -> Result<LockState> {
    table.check_lock(name)?;
    let (found, obstacle, read_at) = table.read_with_obstacle(name).await?;
    let mut state = LockState::new(name, found, read_at);
    state.obstacle = obstacle.map(|full| {
        let Row { token, writer, .. } = full.row();
        let age = (token != Timestamp::EPOCH).then(|| read_at.since(token));
        Obstacle { key: full.key, id: writer.id().map(str::to_string), age }
    });
    Ok(state)
}

/// Returns the state of one lock, without what stands in its way.
pub(crate) async fn read_state(table: &Table, name: &str) -> Result<LockState> {
    table.check_lock(name)?;
    let (found, read_at) = table.read(name, REQUEST_LIMIT).await?;
    Ok(LockState::new(name, found, read_at))
}

impl Table {
    async fn read_with_obstacle(
        &self,
        lock: &str,
    ) -> Result<(Option<StoredRow>, Option<StoredRow>, Timestamp)> {
        let spanner = &self.spanner;
        let timed = spanner.ready(REQUEST_LIMIT).await?;
        let reading = async {
            let transaction = timed.client.read_only_transaction().build().await?;
            let request = spanner.row_request(all_columns(), lock, REQUEST_LIMIT);
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(request).await?;
            let found = row::stored_row(&mut rows).await?;
            let Some(full) = &found else {
                return Ok((None, None, transaction.read_timestamp()));
            };
            let key = takeover_key(lock, full.row().token);
            let columns = ["name", "heartbeat", "token", "writer"];
            let request = spanner.row_request(columns, &key, REQUEST_LIMIT);
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(request).await?;
            let obstacle = row::stored_row(&mut rows).await?.filter(|row| row.is_takeover());
            Ok((found, obstacle, transaction.read_timestamp()))
        };
        let doing = || format!("lock `{lock}`: inspect it");
        let answer = timeout(timed.limit, reading).await;
        let (found, obstacle, read_at) = spanner.answered(&timed, answer, doing).await?;
        Ok((
            found,
            obstacle,
            read_at.map(row::timestamp).ok_or_else(|| without_read_timestamp(&doing()))?,
        ))
    }
}
