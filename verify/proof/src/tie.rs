//! The relation beside `crates/protocol/src/change.rs`: every act, over every small row.
//!
//! Small is enough, since both only compare for equality: two tokens, three heartbeats and a writer
//! of each form make every pattern of equal and different cells.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use spindle_protocol::{
    Cell, Change, Column, Holder, Nonce, Row, StoredRow, Succession, TermId, Timestamp, Write,
    WriteKind, Writer, takeover_key,
};

use crate::queries::Update;
use crate::relation::{ACTIONS, Action, Kind};
use crate::term::Term;
use crate::value::{Meaning, Value, holds, value as value_of};

const LOCK: &str = "job";
const COMMITTED_AT: i64 = 9;
const LEASE_MS: i64 = 5;

/// Values of an action's parameters.
type Given = Vec<(&'static str, Value)>;

/// The rows of one lock: the lock row, and the displaced tokens that have a takeover row.
#[derive(Clone, Debug, PartialEq)]
struct Rows {
    lock: Option<(i64, i64, String, Option<i64>)>,
    takeovers: BTreeSet<i64>,
}

/// Names and their values; a function stands for its value at the action's own parameter.
struct World {
    names: HashMap<&'static str, Value>,
    takeovers: BTreeSet<i64>,
}

impl Meaning for World {
    fn value(&self, name: &str, at: &[Value]) -> Option<Value> {
        match (name, at) {
            ("is_holder", [Value::Writer(text)]) => {
                Some(Value::Bool(Writer::from(text.as_str()).id().is_some()))
            }
            ("takeover_row", [Value::Int(token)]) => {
                Some(Value::Bool(self.takeovers.contains(token)))
            }
            _ => self.names.get(name).cloned(),
        }
    }

    fn elements(&self, sort: &str) -> Vec<Value> {
        panic!("{sort}: a row is judged alone")
    }
}

impl World {
    fn new(rows: &Rows, given: &[(&'static str, Value)]) -> World {
        let (heartbeat, token, writer, lease) = rows.lock.clone().unwrap_or_default();
        let mut names = HashMap::from([
            ("present", Value::Bool(rows.lock.is_some())),
            ("heartbeat", Value::Int(heartbeat)),
            ("token", Value::Int(token)),
            ("wr", Value::Writer(writer)),
            ("lease_null", Value::Bool(lease.is_none())),
            ("lease_cell", Value::Int(lease.unwrap_or_default())),
            ("ts", Value::Int(COMMITTED_AT)),
            ("nobody", Value::Writer(String::new())),
            ("has_column", Value::Bool(true)),
            ("lease", Value::Int(LEASE_MS)),
        ]);
        // There is one of each: the action's own.
        let own = ["w", "t", "h", "f", "r", "owner", "beat_term", "fence_term"];
        names.extend(own.map(|name| (name, Value::Int(0))));
        names.extend(given.iter().cloned());
        World { names, takeovers: rows.takeovers.clone() }
    }

    /// Returns the rows after the action, or none if a guard refuses it.
    fn after(mut self, action: &Action) -> Option<Rows> {
        let judges = action.guards.iter().filter(|guard| guard.kind == Kind::Judge);
        if !judges.map(|guard| Term::read(guard.term)).all(|guard| holds(&guard, &self)) {
            return None;
        }
        let mut written = Vec::new();
        for (head, value) in action.row.iter().copied().flatten() {
            let Update { name, key, value } = Update::read(head, value);
            written.push((name, key.map(|key| value_of(&key, &self)), value_of(&value, &self)));
        }
        for (name, key, value) in written {
            match (key, &value) {
                (Some(Value::Int(token)), Value::Bool(true)) => self.takeovers.extend([token]),
                (Some(Value::Int(token)), Value::Bool(false)) => {
                    self.takeovers.retain(|other| *other != token);
                }
                (None, _) => {
                    let known = self.names.iter_mut().find(|(known, _)| **known == name);
                    *known.unwrap_or_else(|| panic!("`{name}` is no cell")).1 = value;
                }
                other => panic!("`{name}` can't be written so: {other:?}"),
            }
        }
        let cell = |name| self.names[name].clone();
        let lock = match (
            cell("present"),
            cell("heartbeat"),
            cell("token"),
            cell("wr"),
            cell("lease_cell"),
        ) {
            (Value::Bool(false), ..) => None,
            (
                _,
                Value::Int(heartbeat),
                Value::Int(token),
                Value::Writer(writer),
                Value::Int(lease),
            ) => {
                let lease = (cell("lease_null") == Value::Bool(false)).then_some(lease);
                Some((heartbeat, token, writer, lease))
            }
            other => panic!("{other:?} is no row"),
        };
        Some(Rows { lock, takeovers: self.takeovers })
    }
}

impl Rows {
    /// Returns what a transaction finds that reads what the change asks for, and nothing else.
    fn found(&self, change: &Change) -> Vec<StoredRow> {
        let reads = change.reads(LOCK);
        let has = |column| reads.columns.contains(&column);
        let lock = self.lock.iter().map(|(heartbeat, token, writer, lease)| StoredRow {
            heartbeat: has(Column::Heartbeat).then_some(Timestamp(*heartbeat)),
            token: has(Column::Token).then_some(Timestamp(*token)),
            writer: if has(Column::Writer) {
                Writer::from(writer.as_str())
            } else {
                Writer::nobody()
            },
            lease_ms: lease.filter(|_| has(Column::LeaseMs)),
            ..StoredRow::new(LOCK)
        });
        let takeovers = self
            .takeovers
            .iter()
            .map(|token| StoredRow::new(takeover_key(LOCK, Timestamp(*token))));
        lock.chain(takeovers).filter(|row| reads.keys.contains(&row.key)).collect()
    }

    /// Returns the rows after the code's own judgement, or none if it refuses.
    fn judged(&self, change: &Change) -> Option<Rows> {
        let writes = change.judge(LOCK, &self.found(change)).ok()?;
        let mut rows = self.clone();
        writes.iter().for_each(|write| rows.write(write));
        Some(rows)
    }

    fn write(&mut self, write: &Write) {
        let is_deleted = write.kind == WriteKind::Delete;
        if write.key != LOCK {
            let digits = write.key.rsplit('_').next().and_then(|digits| digits.parse().ok());
            let token: i64 = digits.expect("a takeover row's key");
            let is_changed = if is_deleted {
                self.takeovers.remove(&token)
            } else {
                self.takeovers.insert(token)
            };
            assert!(is_changed || write.kind == WriteKind::InsertOrUpdate, "{write:?} of {self:?}");
            return;
        }
        if is_deleted {
            self.lock = None;
            return;
        }
        assert_eq!(self.lock.is_none(), write.kind == WriteKind::Insert, "{write:?} of {self:?}");
        let row = self.lock.get_or_insert_default();
        for (column, cell) in &write.cells {
            match (column, cell) {
                (Column::Heartbeat, Cell::CommitTimestamp) => row.0 = COMMITTED_AT,
                (Column::Heartbeat, Cell::Epoch) => row.0 = 0,
                (Column::Token, Cell::CommitTimestamp) => row.1 = COMMITTED_AT,
                (Column::Writer, Cell::Text(text)) => row.2.clone_from(text),
                (Column::LeaseMs, Cell::Milliseconds(lease)) => row.3 = Some(*lease),
                (Column::LeaseMs, Cell::Null) => row.3 = None,
                (Column::Info, _) => {}
                other => panic!("{other:?} is written nowhere"),
            }
        }
    }
}

fn writers() -> Vec<Writer> {
    let term = |attempt| Writer::term("a", Nonce { instance: 1, attempt });
    let kept_away = Writer::kept_away("a", Duration::from_millis(3));
    vec![
        term(1),
        term(2),
        Writer::nobody(),
        Writer::successor("b"),
        Writer::cooldown(),
        kept_away,
        "go".into(),
    ]
}

fn seen() -> Vec<Row> {
    let mut rows = Vec::new();
    for heartbeat in 0..3 {
        for token in 1..3 {
            rows.extend(writers().into_iter().map(|writer| Row {
                heartbeat: Timestamp(heartbeat),
                token: Timestamp(token),
                writer,
                lease: None,
            }));
        }
    }
    rows
}

fn tables() -> Vec<Rows> {
    let of =
        |row: &Row, lease| (row.heartbeat.0, row.token.0, row.writer.as_str().to_string(), lease);
    let mut locks = vec![None];
    locks.extend(seen().iter().flat_map(|row| [None, Some(7)].map(|lease| Some(of(row, lease)))));
    let leftovers = [BTreeSet::new(), BTreeSet::from([1]), BTreeSet::from([1, 2])];
    let with =
        |lock: Option<_>| leftovers.clone().map(|takeovers| Rows { lock: lock.clone(), takeovers });
    locks.into_iter().flat_map(with).collect()
}

/// Each change of an ordinary lock, with the relation's name of it and its parameters' values.
fn changes() -> Vec<(&'static str, Change, Given)> {
    let text = |writer: &Writer| Value::Writer(writer.as_str().into());
    let holder = || Holder { lease: Duration::from_millis(5), info: None };
    let ours = writers().remove(0);
    let insert = Change::Insert { writer: ours.clone(), holder: holder() };
    let mut changes = vec![("insert", insert, vec![("w", text(&ours))])];
    for row in seen() {
        let named = |heartbeat, token, wr| {
            vec![
                (heartbeat, Value::Int(row.heartbeat.0)),
                (token, Value::Int(row.token.0)),
                (wr, text(&row.writer)),
            ]
        };
        for over_leftover in [false, true] {
            let (seen, writer) = (row.clone(), ours.clone());
            let change = Change::Takeover { seen, writer, over_leftover, holder: holder() };
            let mut given = named("seen_heartbeat", "seen_token", "seen_wr");
            given.extend([("w", text(&ours)), ("over_leftover", Value::Bool(over_leftover))]);
            changes.push(("takeover", change, given));
        }
        let remove = Change::Remove { seen: Some(row.clone()), takeovers: Vec::new() };
        changes.push(("remove", remove, named("rem_heartbeat", "rem_token", "rem_wr")));
        let term = TermId { token: row.token, writer: row.writer.clone() };
        let of_term = vec![("term_token", Value::Int(row.token.0)), ("writer", text(&row.writer))];
        let heartbeat = Change::Heartbeat { term: term.clone(), holder: None };
        changes.push(("heartbeat", heartbeat, of_term.clone()));
        changes.push(("fence", Change::Fence { term: term.clone() }, of_term.clone()));
        for (next, given) in successions() {
            for displaced in [None, Some(Timestamp(1))] {
                let (term, next) = (term.clone(), next.clone());
                let mut given = [of_term.clone(), given.clone()].concat();
                given.push(("seen_present", Value::Bool(displaced.is_some())));
                given.push(("seen_token", Value::Int(1)));
                changes.push((
                    "release",
                    Change::Release { term, next, displaced, info: None },
                    given,
                ));
            }
        }
    }
    for keep_away in [None, Some(Duration::from_millis(3))] {
        let next = keep_away.map_or_else(Writer::nobody, |keep| Writer::kept_away("a", keep));
        changes.push((
            "evict",
            Change::Evict { keep_away, info: None },
            vec![("next", text(&next))],
        ));
    }
    for (next, given) in successions() {
        changes.push(("seize", Change::Seize { next, info: None }, given));
    }
    let sweep = Change::Sweep { keys: vec![takeover_key(LOCK, Timestamp(1))] };
    changes.push(("sweep", sweep, vec![("swept", Value::Int(1))]));
    changes
}

fn successions() -> Vec<(Succession, Given)> {
    let with = |next: Succession| {
        let grace =
            next.grace().map(|grace| i64::try_from(grace.as_millis()).expect("a short grace"));
        let given = vec![
            ("next", Value::Writer(next.writer().as_str().into())),
            ("null", Value::Bool(grace.is_none())),
            ("grace", Value::Int(grace.unwrap_or_default())),
        ];
        (next, given)
    };
    let grace = Duration::from_millis(7);
    vec![
        with(Succession::Anyone),
        with(Succession::Successor { id: "b".into(), grace }),
        with(Succession::Cooldown { rest: grace }),
    ]
}

#[test]
fn the_relation_does_to_every_small_row_what_the_code_does() {
    let mut compared = 0;
    for (name, change, given) in changes() {
        let action =
            ACTIONS.iter().find(|action| action.name == name).expect("an action of the relation");
        for rows in tables() {
            let mut given = given.clone();
            if let (Change::Evict { keep_away: Some(keep), .. }, Some((_, _, writer, _))) =
                (&change, &rows.lock)
            {
                // The code names the id that it found; the proof lets it be anyone who doesn't hold.
                let id = Writer::from(writer.as_str()).id().unwrap_or_default().to_string();
                given =
                    vec![("next", Value::Writer(Writer::kept_away(&id, *keep).as_str().into()))];
            }
            let by_relation = World::new(&rows, &given).after(action);
            let by_code = rows.judged(&change);
            // A sweep of nothing is refused by the code, and changes nothing by the relation.
            let by_code =
                if name == "sweep" { by_code.or_else(|| Some(rows.clone())) } else { by_code };
            assert_eq!(by_relation, by_code, "{name}: {change:?} of {rows:?}");
            compared += 1;
        }
    }
    assert!(compared > 100_000, "only {compared} compared");
}

#[test]
fn a_change_is_judged_by_its_own_rows_whatever_else_its_batch_has_read() {
    let other = |key: &str, writer| StoredRow {
        heartbeat: Some(Timestamp(1)),
        token: Some(Timestamp(1)),
        writer,
        ..StoredRow::new(key)
    };
    let neighbours = || {
        writers().into_iter().take(3).flat_map(|writer| {
            let takeover = takeover_key("jobs", Timestamp(1));
            [other("jobs", writer.clone()), other("a", writer.clone()), other(&takeover, writer)]
        })
    };
    for (name, change, _) in changes() {
        let reads = change.reads(LOCK);
        for rows in tables() {
            let alone = rows.found(&change);
            let batch: Vec<StoredRow> = neighbours().chain(alone.clone()).collect();
            let judged = change.judge(LOCK, &alone);
            assert_eq!(change.judge(LOCK, &batch), judged, "{name}: {change:?} of {rows:?}");
            for write in judged.into_iter().flatten() {
                assert!(reads.keys.contains(&write.key), "{name} writes {write:?} unread");
            }
        }
    }
}

#[test]
fn no_writer_that_a_release_or_an_eviction_leaves_names_a_holder() {
    let releases = successions().into_iter().map(|(next, _)| next.writer());
    let evictions = [Writer::nobody(), Writer::kept_away("a", Duration::from_millis(3))];
    for writer in releases.chain(evictions) {
        assert_eq!(writer.id(), None, "`{writer}`");
    }
}

#[test]
fn every_action_that_the_code_judges_is_compared() {
    let compared: BTreeSet<&str> = changes().iter().map(|(name, ..)| *name).collect();
    for action in ACTIONS {
        if action.guards.iter().any(|guard| guard.kind == Kind::Judge) {
            assert!(compared.contains(action.name), "`{}` is compared with nothing", action.name);
        }
    }
}
