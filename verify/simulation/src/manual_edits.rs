//! Manual edits: rows that are edited and deleted outside of the protocol.

use rand::RngExt as _;
use spindle_emulator::engine::{
    Cell, KeyRange, Mutation, Timestamp as EngineTimestamp, Value, WriteKind,
};
use spindle_protocol::{Change, Row, Succession, Timestamp};

use crate::checks::{Effect, Purpose};
use crate::coverage::CoverageGoal;
use crate::instance::Instance;
use crate::network::COLUMNS;
use crate::rows::{TABLE, decode, key, mutation, timestamp};
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

pub(crate) async fn apply(world: &World, instance: &Instance, edit: ManualEdit) {
    let name = &instance.lock_name;
    let Some(row) = row(world, name).await else { return };
    let mutation = match edit {
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
            let info = Some("seized by hand: a fault".to_string());
            let seize = Change::Seize { next: Succession::Anyone, info };
            carry_out(world, name, Purpose::ManualEdits, &seize).await;
            return;
        }
    };
    write(world, name, Purpose::ManualEdits, vec![mutation]).await;
}

/// Ends a term as the library's `evict` does: whoever wants the lock still waits out the lease.
pub(crate) async fn evict(world: &World, instance: &Instance) {
    let evict = Change::Evict { info: Some("evicted by hand".into()) };
    carry_out(world, &instance.lock_name, Purpose::Evict, &evict).await;
}

/// Carries out a change as the operator's tool does, if it judges that it may.
async fn carry_out(world: &World, name: &str, purpose: Purpose, change: &Change) {
    let follows = |cells: &[Value]| {
        let writes = change.judge(name, &[decode(name, &COLUMNS, cells)]).ok()?;
        Some(writes.iter().map(mutation).collect())
    };
    world.edit_row(name, purpose, follows).await;
}

/// The row of a lock as it stands there.
pub(crate) async fn row(world: &World, name: &str) -> Option<Row> {
    Some(world.row_at(name, timestamp(world.read_timestamp())).await?.row())
}

/// Writes past the network.
pub(crate) async fn write(world: &World, lock: &str, purpose: Purpose, mutations: Vec<Mutation>) {
    world.edit(Effect { by: None, lock: lock.to_string(), purpose, mutations }).await;
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
