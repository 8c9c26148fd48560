//! Format 1 of the lock table, frozen: what the instances of the previous version write, and what
//! they make of what they read.
//!
//! Written from the table in `docs/design.md`, with none of the protocol's own texts, cells and
//! keys, and never changed. A later format gets a file of its own beside this one. The protocol's
//! types stand for what is meant, never for how it is written.

use std::collections::HashMap;
use std::time::Duration;

use spindle_emulator::engine::{Cell, KeyRange, Mutation, Timestamp as EngineTimestamp, Value};
use spindle_emulator::engine::{Key, KeyPart, WriteKind};
use spindle_protocol::{Change, Holder, Named, Nonce, StoredRow, Succession, Timestamp};

use crate::rows::TABLE;

const LONGEST_KEEP_AWAY_MS: u64 = 60 * 60 * 1_000;

/// A lease of a day, and one per cent.
const LONGEST_LEASE_MS: i64 = 87_264_000;

/// A row as format 1 understands it. Columns that were not read are as if they were NULL.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) heartbeat: Option<EngineTimestamp>,
    pub(super) token: Option<EngineTimestamp>,
    pub(super) writer: String,
    pub(super) lease: Option<Duration>,
    pub(super) info: Option<String>,
}

impl Row {
    pub(super) fn read(columns: &[&str], cells: &[Value]) -> Row {
        let mut row = Row::default();
        for (column, cell) in columns.iter().zip(cells) {
            match (*column, cell) {
                ("heartbeat", Value::Timestamp(time)) => row.heartbeat = Some(*time),
                ("token", Value::Timestamp(time)) => row.token = Some(*time),
                ("writer", Value::String(writer)) => row.writer.clone_from(writer),
                ("lease_ms", Value::Int64(lease_ms)) => row.lease = lease(*lease_ms),
                ("info", Value::String(info)) => row.info = Some(info.clone()),
                _ => {}
            }
        }
        row
    }
}

/// A negative one counts as NULL, and more than can have been written as the most that can.
fn lease(lease_ms: i64) -> Option<Duration> {
    let lease_ms = u64::try_from(lease_ms.min(LONGEST_LEASE_MS)).ok()?;
    Some(Duration::from_millis(lease_ms))
}

/// Returns the meaning of the text in `writer`.
pub(super) fn names(writer: &str) -> Named<'_> {
    if writer.is_empty() {
        return Named::Nobody;
    }
    if let Some(successor) = writer.strip_prefix('>') {
        return if successor.is_empty() { Named::Cooldown } else { Named::Successor(successor) };
    }
    kept_away(writer).or_else(|| term(writer)).unwrap_or(Named::Stranger(writer))
}

/// `!<id>!<milliseconds>`
fn kept_away(writer: &str) -> Option<Named<'_>> {
    let (id, milliseconds) = writer.strip_prefix('!')?.rsplit_once('!')?;
    let milliseconds = decimal(milliseconds)?;
    let keep_away = Duration::from_millis(milliseconds);
    let can_be = !id.is_empty() && milliseconds <= LONGEST_KEEP_AWAY_MS;
    can_be.then_some(Named::KeptAway { id, keep_away })
}

/// `<id>#<16 hexadecimal digits>-<attempt>`
fn term(writer: &str) -> Option<Named<'_>> {
    let (id, nonce) = writer.rsplit_once('#')?;
    let (instance, attempt) = nonce.split_once('-')?;
    let is_hexadecimal = instance.bytes().all(|digit| digit.is_ascii_hexdigit());
    let instance = u64::from_str_radix(instance, 16).ok().filter(|_| instance.len() == 16)?;
    let nonce = Nonce { instance, attempt: decimal(attempt)? };
    is_hexadecimal.then_some(Named::Term { id, nonce })
}

fn decimal(digits: &str) -> Option<u64> {
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Returns the text for `writer`.
pub(super) fn writer(named: &Named<'_>) -> String {
    match named {
        Named::Nobody => String::new(),
        Named::Term { id, nonce } => format!("{id}#{:016x}-{}", nonce.instance, nonce.attempt),
        Named::Successor(id) => format!(">{id}"),
        Named::Cooldown => ">".to_string(),
        Named::KeptAway { id, keep_away } => {
            let most = Duration::from_millis(LONGEST_KEEP_AWAY_MS);
            format!("!{id}!{}", milliseconds((*keep_away).min(most)))
        }
        Named::Stranger(text) => (*text).to_string(),
    }
}

/// The key of the takeover row of `lock` for the displaced token.
pub(super) fn takeover_key(lock: &str, displaced: Timestamp) -> String {
    format!("{lock}_{:019}", displaced.0.max(0))
}

/// The columns that a change of these reads: of a term token and writer, otherwise the heartbeat
/// as well.
pub(super) fn columns<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Vec<&'static str> {
    let is_of_term = |change: &Change| {
        let Change::Release { displaced, .. } = change else {
            return matches!(
                change,
                Change::Insert { .. } | Change::Heartbeat { .. } | Change::Fence { .. }
            );
        };
        displaced.is_none()
    };
    if changes.into_iter().all(is_of_term) {
        vec!["token", "writer"]
    } else {
        vec!["heartbeat", "token", "writer"]
    }
}

/// Returns the writes of a change that is not refused, where these rows were found under their
/// keys.
pub(super) fn writes(
    lock: &str,
    change: &Change,
    found: &HashMap<String, StoredRow>,
) -> Vec<Mutation> {
    let has = |key: &str| found.get(key).is_some_and(|row| row.heartbeat.is_none());
    let sweep =
        |keys: &[String]| keys.iter().filter(|key| has(key)).map(|key| delete(key)).collect();
    match change {
        Change::Insert { writer, holder } => {
            vec![write(WriteKind::Insert, lock, begin(&writer.names(), holder))]
        }
        Change::Takeover { seen, writer: taker, over_leftover, holder } => {
            let over = if *over_leftover { WriteKind::InsertOrUpdate } else { WriteKind::Insert };
            let arbiter = vec![
                ("token", Cell::CommitTimestamp),
                ("writer", writer(&taker.names()).as_str().into()),
            ];
            vec![
                write(over, &takeover_key(lock, seen.token), arbiter),
                write(WriteKind::Update, lock, begin(&taker.names(), holder)),
            ]
        }
        Change::Heartbeat { holder, .. } => {
            let mut cells = vec![("heartbeat", Cell::CommitTimestamp)];
            cells.extend(holder.iter().flat_map(says));
            vec![write(WriteKind::Update, lock, cells)]
        }
        Change::Release { next, displaced, info, .. } => {
            let mut writes = vec![write(WriteKind::Update, lock, free(next, info.as_deref()))];
            let takeover = displaced.map(|displaced| takeover_key(lock, displaced));
            writes.extend(takeover.filter(|key| has(key)).map(|key| delete(&key)));
            writes
        }
        Change::Evict { keep_away, info } => {
            let id = found.get(lock).and_then(|row| row.writer.id());
            let named = match (keep_away, id) {
                (Some(keep_away), Some(id)) => Named::KeptAway { id, keep_away: *keep_away },
                _ => Named::Nobody,
            };
            let cells = vec![
                ("token", Cell::CommitTimestamp),
                ("writer", writer(&named).as_str().into()),
                ("info", text(info.as_deref())),
            ];
            vec![write(WriteKind::Update, lock, cells)]
        }
        Change::Seize { next, info } => {
            vec![write(WriteKind::InsertOrUpdate, lock, free(next, info.as_deref()))]
        }
        Change::NameCount { seen, count } => {
            let kind = if seen.is_some() { WriteKind::Update } else { WriteKind::Insert };
            let mut cells = free(&Succession::Anyone, None);
            cells.retain(|(column, _)| *column != "writer");
            cells.push(("writer", count.to_writer().as_str().into()));
            vec![write(kind, lock, cells)]
        }
        Change::Remove { takeovers, .. } => {
            let mut writes: Vec<Mutation> = sweep(takeovers);
            writes.push(delete(lock));
            writes
        }
        Change::Sweep { keys } => sweep(keys),
        _ => Vec::new(),
    }
}

type Cells = Vec<(&'static str, Cell)>;

fn begin(named: &Named<'_>, holder: &Holder) -> Cells {
    let mut cells = vec![
        ("heartbeat", Cell::CommitTimestamp),
        ("token", Cell::CommitTimestamp),
        ("writer", writer(named).as_str().into()),
    ];
    cells.extend(says(holder));
    cells
}

fn says(holder: &Holder) -> [(&'static str, Cell); 2] {
    [("lease_ms", milliseconds(holder.lease).into()), ("info", text(holder.info.as_deref()))]
}

/// The row of a lock that nobody holds.
fn free(next: &Succession, info: Option<&str>) -> Cells {
    let null = Cell::Value(Value::Null);
    let (named, lease_ms) = match next {
        Succession::Anyone => (Named::Nobody, null),
        Succession::Successor { id, grace } => (Named::Successor(id), milliseconds(*grace).into()),
        Succession::Cooldown { rest } => (Named::Cooldown, milliseconds(*rest).into()),
    };
    vec![
        ("heartbeat", EngineTimestamp::EPOCH.into()),
        ("token", Cell::CommitTimestamp),
        ("writer", writer(&named).as_str().into()),
        ("lease_ms", lease_ms),
        ("info", text(info)),
    ]
}

fn text(text: Option<&str>) -> Cell {
    text.map_or(Cell::Value(Value::Null), Cell::from)
}

/// Rounded up: nobody is owed less than it counts on.
fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

fn key(name: &str) -> Key {
    Key(vec![KeyPart::Ascending(name.into())])
}

fn write(kind: WriteKind, name: &str, cells: Cells) -> Mutation {
    let name = [("name", Cell::from(name))];
    Mutation::write(kind, TABLE, name.into_iter().chain(cells))
}

fn delete(name: &str) -> Mutation {
    Mutation::Delete { table: TABLE.to_string(), keys: vec![KeyRange::prefix(key(name))] }
}
