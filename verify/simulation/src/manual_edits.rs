//! Manual edits: rows that are edited and deleted outside of the protocol.

use std::collections::HashMap;

use rand::RngExt as _;
use spindle_emulator::engine::{
    Cell, Concurrency, KeyRange, Mutation, Read, ReadWriteOptions, Timestamp as EngineTimestamp,
    WriteKind,
};
use spindle_protocol::{Change, Row, Succession, Timestamp};

use crate::checks::{Committed, Purpose};
use crate::coverage::CoverageGoal;
use crate::format::{Format, Found};
use crate::process::Process;
use crate::rows::{TABLE, key, timestamp};
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ManualEdit {
    DeleteRow,
    EditToken,
    EditHeartbeat,
    LoseData,
    Seize,
}

impl ManualEdit {
    pub(crate) fn any(world: &World) -> ManualEdit {
        match world.random(|random| random.random_range(0..9)) {
            0 | 1 => ManualEdit::DeleteRow,
            2 | 3 => ManualEdit::EditToken,
            4 | 5 => ManualEdit::EditHeartbeat,
            6 => ManualEdit::LoseData,
            _ => ManualEdit::Seize,
        }
    }
}

pub(crate) async fn lay_on(world: &World, process: &Process, hand: ManualEdit) {
    let name = &process.lock_name;
    let Some(row) = row(world, name).await else { return };
    let mutation = match hand {
        ManualEdit::DeleteRow => {
            world.saw(CoverageGoal::RowDeleted);
            let keys = vec![KeyRange::prefix(key(name))];
            Mutation::Delete { table: TABLE.to_string(), keys }
        }
        ManualEdit::EditToken => {
            world.saw(CoverageGoal::TokenEdited);
            // Back to some moment before, as a term before had it or as none had.
            update(name, vec![("token", earlier(world, row.token))])
        }
        ManualEdit::EditHeartbeat => {
            world.saw(CoverageGoal::HeartbeatEdited);
            let edited = match world.random(|random| random.random_range(0..3)) {
                0 => Cell::Value(EngineTimestamp::EPOCH.into()),
                1 => Cell::CommitTimestamp,
                _ => earlier(world, row.heartbeat),
            };
            update(name, vec![("heartbeat", edited)])
        }
        ManualEdit::LoseData => {
            world.saw(CoverageGoal::DataLost);
            world.lose_rows();
            return;
        }
        ManualEdit::Seize => {
            world.saw(CoverageGoal::Seized);
            let info = Some("seized by hand: a storm".to_string());
            let seize = Change::Seize { next: Succession::Anyone, info };
            let Some(writes) = judged(world, name, &seize).await else { return };
            write(world, name, Purpose::ManualEdits, writes).await;
            return;
        }
    };
    write(world, name, Purpose::ManualEdits, vec![mutation]).await;
}

/// Ends a term as the library's `evict` does: whoever wants the lock still waits out the lease, and
/// sometimes the evicted waits longer.
pub(crate) async fn evict(world: &World, process: &Process) {
    let lease = process.timing().lease;
    let keep_away = world.random(|random| {
        random.random_bool(0.5).then(|| lease.mul_f64(random.random_range(0.0..1.0)))
    });
    let evict = Change::Evict { keep_away, info: Some("evicted by hand".into()) };
    let Some(writes) = judged(world, &process.lock_name, &evict).await else { return };
    write(world, &process.lock_name, Purpose::Evict { keep_away }, writes).await;
}

/// Returns the writes of an operator's tool of one version or the other; nothing if there is
/// nothing to do.
async fn judged(world: &World, name: &str, change: &Change) -> Option<Vec<Mutation>> {
    let format = if world.plan.mixed && world.random(|random| random.random()) {
        Format::Previous
    } else {
        Format::Present
    };
    let found = format.row(name, &found(world, name).await?);
    let writes = change.judge(name, std::slice::from_ref(&found)).ok()?;
    let accepted = (name.into(), change.clone(), writes);
    Some(format.writes(&accepted, &HashMap::from([(name.to_string(), found)])))
}

/// The row of a lock as it stands there.
pub(crate) async fn row(world: &World, name: &str) -> Option<Row> {
    Some(Format::Present.row(name, &found(world, name).await?).row())
}

async fn found(world: &World, name: &str) -> Option<Found> {
    const COLUMNS: [&str; 4] = ["heartbeat", "token", "writer", "lease_ms"];
    let concurrency = Concurrency::Optimistic;
    let id = world.database.begin(&ReadWriteOptions { concurrency, previous: None });
    let rows = world.database.read(id, Read::row(TABLE, COLUMNS, key(name))).await;
    // Over whether or not it could be read.
    let _ = world.database.rollback(id);
    let cells = rows.ok()?.into_iter().next()?;
    Some(Found { key: name.to_string(), columns: COLUMNS.to_vec(), cells })
}

/// Writes past the network.
pub(crate) async fn write(world: &World, lock: &str, purpose: Purpose, mutations: Vec<Mutation>) {
    // A row that is gone meanwhile is not there to be edited.
    if let Ok(committed) = world.database.apply(&mutations).await {
        let (at, lock) = (timestamp(committed.timestamp), lock.to_string());
        let by = usize::MAX;
        world.committed(by, Committed { at, by, lock, purpose, mutations });
    }
}

fn update(name: &str, cells: Vec<(&str, Cell)>) -> Mutation {
    let name = [("name", Cell::from(name))];
    Mutation::write(WriteKind::Update, TABLE, name.into_iter().chain(cells))
}

fn earlier(world: &World, timestamp: Timestamp) -> Cell {
    let back = world.random(|random| random.random_range(1_i64..120_000_000_000));
    let nanos = i128::from(timestamp.0.saturating_sub(back).max(0));
    EngineTimestamp::from_nanos(nanos).unwrap_or(EngineTimestamp::EPOCH).into()
}
