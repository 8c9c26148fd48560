//! The relation beside `crates/protocol/src/change.rs`: every act, over every small row.
//!
//! Small is enough, since both only compare for equality: two tokens, three heartbeats and a writer
//! of each form make every pattern of equal and different cells.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use spindle_protocol::rw::{Reader, Stopped, WriterDecision};
use spindle_protocol::{
    Act, Cell, Change, Column, Holder, Nonce, Observation, Row, StoredRow, Succession, TermId,
    Timestamp, Write, WriteKind, Writer, takeover_key,
};

use crate::relation::{Action, Kind, RELATION};
use crate::term::Term;
use crate::value::{Meaning, Value, holds, value as value_of};

const LOCK: &str = "job";
const WRITERS: &str = "writers-row";
const READERS: [&str; 2] = ["reader-1", "reader-2"];
const COMMITTED_AT: i64 = 9;
const LEASE_MS: i64 = 5;

/// Values of an action's parameters, and of what is known at its own looks and terms.
type Given = Vec<(String, Value)>;

/// Heartbeat, token, writer and lease.
type Cells = (i64, i64, String, Option<i64>);

/// The rows of one lock: lock rows by their keys, and the displaced tokens that have a takeover row.
#[derive(Clone, Debug, PartialEq)]
struct Rows {
    locks: BTreeMap<&'static str, Cells>,
    takeovers: BTreeSet<i64>,
}

/// Names and their values; a function that has none at its arguments is the same at all.
struct World {
    names: HashMap<String, Value>,
    keys: Vec<&'static str>,
    takeovers: BTreeSet<i64>,
}

impl Meaning for World {
    fn value(&self, name: &str, at: &[Value]) -> Option<Value> {
        match (name, at) {
            ("is_holder", [Value::Text(text)]) => {
                Some(Value::Bool(Writer::from(text.as_str()).id().is_some()))
            }
            ("second_of", [Value::Text(text)]) => {
                // A text that is no attempt has none: another text will do.
                let second = Writer::from(text.as_str()).second().unwrap_or("none".into());
                Some(Value::Text(second.as_str().into()))
            }
            ("reads", [Value::Text(row)]) => Some(Value::Bool(READERS.contains(&row.as_str()))),
            ("takeover_row", [_, Value::Int(token)]) => {
                Some(Value::Bool(self.takeovers.contains(token)))
            }
            (_, [Value::Text(of)]) if self.names.contains_key(&format!("{name} {of}")) => {
                self.names.get(&format!("{name} {of}")).cloned()
            }
            // A glance at a row is called as the row.
            ("glance", [row]) => Some(row.clone()),
            (row, []) if self.keys.contains(&row) => Some(Value::Text(row.into())),
            _ => self.names.get(name).cloned(),
        }
    }

    fn elements(&self, _: &str) -> Vec<Value> {
        self.keys.iter().map(|key| Value::Text((*key).into())).collect()
    }
}

/// Says how a look, or a row, is seen: with this prefix and this name.
fn cells(prefix: &str, of: &str, row: Option<&Cells>) -> Given {
    let (heartbeat, token, writer, lease) = row.cloned().unwrap_or_default();
    let (wr, lease_cell) = if prefix.is_empty() { ("wr", "lease_cell") } else { ("wr", "lease") };
    let all = [
        ("present", Value::Bool(row.is_some())),
        ("heartbeat", Value::Int(heartbeat)),
        ("token", Value::Int(token)),
        (wr, Value::Text(writer)),
        ("lease_null", Value::Bool(lease.is_none())),
        (lease_cell, Value::Int(lease.unwrap_or_default())),
    ];
    all.into_iter().map(|(name, value)| (format!("{prefix}{name} {of}"), value)).collect()
}

/// Says what a look has seen.
fn saw(of: &str, row: Option<&Row>) -> Given {
    let row = row.map(|row| {
        let lease = row.lease.map(|lease| i64::try_from(lease.as_nanos()).expect("short"));
        (row.heartbeat.0, row.token.0, row.writer.as_str().to_string(), lease)
    });
    cells("saw_", of, row.as_ref())
}

fn given<const N: usize>(names: [(&str, Value); N]) -> Given {
    names.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

impl World {
    fn new(keys: &[&'static str], rows: &Rows, values: &[(String, Value)]) -> World {
        let text = |text: &str| Value::Text(text.into());
        let mut names: HashMap<String, Value> = given([
            ("ts", Value::Int(COMMITTED_AT)),
            ("nobody", text("")),
            ("has_column", Value::Bool(true)),
            ("has_second", Value::Bool(false)),
            ("lease", Value::Int(LEASE_MS)),
            ("writers", text(WRITERS)),
            ("of", text(keys[0])),
            ("at", text(keys[0])),
            ("ro", text(keys[0])),
            ("own", text("own")),
            ("beside", text("beside")),
        ])
        .into_iter()
        .collect();
        // There is one of each: the action's own.
        let own = ["w", "t", "h", "f", "l", "owner", "attempt", "beat_term", "fence_term"];
        names.extend(own.map(|name| (name.to_string(), Value::Int(0))));
        for key in keys {
            names.extend(cells("", key, rows.locks.get(key)));
        }
        names.extend(values.iter().cloned());
        World { names, keys: keys.to_vec(), takeovers: rows.takeovers.clone() }
    }

    /// Returns the rows after the action, or none if a guard refuses it.
    fn after(mut self, action: &Action) -> Option<Rows> {
        if !action.guards_of(Kind::Judge).all(|guard| holds(&guard.term, &self)) {
            return None;
        }
        let mut written = Vec::new();
        for update in action.updates.iter().filter(|update| update.is_cell) {
            let everywhere = update.key == [Term::from("x")];
            for row in self.keys.iter().take(if everywhere { usize::MAX } else { 1 }) {
                let at = HashMap::from([("x".to_string(), Term::from(*row))]);
                let at = |term: &Term| value_of(&term.with(&at), &self);
                let key: Vec<Value> = update.key.iter().map(at).collect();
                written.push((&update.name, key, at(&update.value)));
            }
        }
        for (name, key, value) in written {
            match (&key[..], value) {
                ([_, Value::Int(token)], Value::Bool(true)) => self.takeovers.extend([*token]),
                ([_, Value::Int(token)], Value::Bool(false)) => {
                    self.takeovers.retain(|other| other != token);
                }
                ([Value::Text(row)], value) => {
                    self.names.insert(format!("{name} {row}"), value);
                }
                other => panic!("`{name}` can't be written so: {other:?}"),
            }
        }
        let mut locks = BTreeMap::new();
        for key in &self.keys {
            let cell = |name| self.names[&format!("{name} {key}")].clone();
            let cells = [cell("heartbeat"), cell("token"), cell("wr"), cell("lease_cell")];
            if cell("present") == Value::Bool(true)
                && let [
                    Value::Int(heartbeat),
                    Value::Int(token),
                    Value::Text(writer),
                    Value::Int(lease),
                ] = cells
            {
                let lease = (cell("lease_null") == Value::Bool(false)).then_some(lease);
                locks.insert(*key, (heartbeat, token, writer, lease));
            }
        }
        Some(Rows { locks, takeovers: self.takeovers })
    }
}

impl Rows {
    /// Returns what a transaction finds that reads what the change asks for, and nothing else.
    fn found(&self, key: &str, change: &Change) -> Vec<StoredRow> {
        let reads = change.reads(key);
        let has = |column| reads.columns.contains(&column);
        let locks = self.locks.iter().map(|(key, (heartbeat, token, writer, lease))| StoredRow {
            heartbeat: has(Column::Heartbeat).then_some(Timestamp(*heartbeat)),
            token: has(Column::Token).then_some(Timestamp(*token)),
            writer: if has(Column::Writer) {
                Writer::from(writer.as_str())
            } else {
                Writer::nobody()
            },
            lease_ms: lease.filter(|_| has(Column::LeaseMs)),
            ..StoredRow::new(*key)
        });
        let takeovers =
            self.takeovers.iter().map(|token| StoredRow::new(takeover_key(key, Timestamp(*token))));
        locks.chain(takeovers).filter(|row| reads.keys.contains(&row.key)).collect()
    }

    /// Returns the rows after the code's own judgement, or none if it refuses.
    fn judged(&self, keys: &[&'static str], change: &Change) -> Option<Rows> {
        let writes = change.judge(keys[0], &self.found(keys[0], change)).ok()?;
        let mut rows = self.clone();
        writes.iter().for_each(|write| rows.write(keys, write));
        Some(rows)
    }

    fn write(&mut self, keys: &[&'static str], write: &Write) {
        let is_deleted = write.kind == WriteKind::Delete;
        let Some(key) = keys.iter().find(|key| **key == write.key) else {
            let digits = write.key.rsplit('_').next().and_then(|digits| digits.parse().ok());
            let token: i64 = digits.expect("a takeover row's key");
            let is_changed = if is_deleted {
                self.takeovers.remove(&token)
            } else {
                self.takeovers.insert(token)
            };
            assert!(is_changed || write.kind == WriteKind::InsertOrUpdate, "{write:?} of {self:?}");
            return;
        };
        if is_deleted {
            assert!(self.locks.remove(key).is_some(), "{write:?} of {self:?}");
            return;
        }
        let is_new = !self.locks.contains_key(key);
        assert_eq!(is_new, write.kind == WriteKind::Insert, "{write:?} of {self:?}");
        let row = self.locks.entry(key).or_default();
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

fn ours() -> Writer {
    Writer::term("a", Nonce { instance: 1, attempt: 1 })
}

fn second() -> Writer {
    ours().second().expect("a term's")
}

fn writers() -> Vec<Writer> {
    let other = Writer::term("a", Nonce { instance: 1, attempt: 2 });
    let kept_away = Writer::kept_away("a", Duration::from_millis(3));
    let named = [Writer::nobody(), Writer::successor("b"), Writer::cooldown(), kept_away];
    [ours(), other, second()].into_iter().chain(named).chain(["go".into()]).collect()
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

fn stored(row: &Row, lease: Option<i64>) -> Cells {
    (row.heartbeat.0, row.token.0, row.writer.as_str().to_string(), lease)
}

/// Each row of few values, or none, under this key.
fn tables(key: &'static str) -> Vec<Rows> {
    let mut locks = vec![BTreeMap::new()];
    for row in seen() {
        locks.extend([None, Some(7)].map(|lease| BTreeMap::from([(key, stored(&row, lease))])));
    }
    let leftovers = [BTreeSet::new(), BTreeSet::from([1]), BTreeSet::from([1, 2])];
    let with = |locks: BTreeMap<_, _>| {
        leftovers.clone().map(|takeovers| Rows { locks: locks.clone(), takeovers })
    };
    locks.into_iter().flat_map(with).collect()
}

fn holder() -> Holder {
    Holder { lease: Duration::from_millis(5), info: None }
}

/// Each change of one row, with the relation's name of it and what its guards ask.
fn changes() -> Vec<(&'static str, Change, Given)> {
    let text = |writer: &Writer| Value::Text(writer.as_str().into());
    let insert = Change::Insert { writer: ours(), holder: holder() };
    let mut changes = vec![("insert", insert, given([("w", text(&ours()))]))];
    for row in seen() {
        for over_leftover in [false, true] {
            let (seen, writer) = (row.clone(), ours());
            let change = Change::Takeover { seen, writer, over_leftover, holder: holder() };
            let own = [("w", text(&ours())), ("over_leftover", Value::Bool(over_leftover))];
            changes.push(("takeover", change, [saw("own", Some(&row)), given(own)].concat()));
        }
        let remove = Change::Remove { seen: Some(row.clone()), takeovers: Vec::new() };
        let looked = given([("l", Value::Text("look".into()))]);
        changes.push(("remove", remove, [saw("look", Some(&row)), looked].concat()));
        let term = TermId { token: row.token, writer: row.writer.clone() };
        let token = || Value::Int(row.token.0);
        let of_term = given([
            ("term_token", token()),
            ("first_token", token()),
            ("writer", text(&row.writer)),
        ]);
        let heartbeat = Change::Heartbeat { term: term.clone(), holder: None };
        changes.push(("heartbeat", heartbeat, of_term.clone()));
        changes.push(("fence", Change::Fence { term: term.clone() }, of_term.clone()));
        changes.push(("end-read", Change::EndRead { term: term.clone() }, of_term.clone()));
        if row.writer == ours() {
            let keep = Change::KeepWriting { first: term.clone(), holder: None };
            changes.push(("keep-writing", keep, of_term.clone()));
        }
        for displaced in [None, Some(Timestamp(1))] {
            let own = given([
                ("saw_present own", Value::Bool(displaced.is_some())),
                ("saw_token own", Value::Int(1)),
            ]);
            for (next, given) in successions() {
                let given = [of_term.clone(), own.clone(), given].concat();
                if row.writer == ours() {
                    let (first, next) = (term.clone(), next.clone());
                    let end = Change::EndWriting { first, next, displaced };
                    changes.push(("end-writing", end, given.clone()));
                }
                let release = Change::Release { term: term.clone(), next, displaced, info: None };
                changes.push(("release", release, given));
            }
        }
    }
    for keep_away in [None, Some(Duration::from_millis(3))] {
        let next = keep_away.map_or_else(Writer::nobody, |keep| Writer::kept_away("a", keep));
        let evict = Change::Evict { keep_away, info: None };
        changes.push(("evict", evict, given([("next", text(&next))])));
    }
    for (next, given) in successions() {
        changes.push(("seize", Change::Seize { next, info: None }, given));
    }
    let sweep = Change::Sweep { keys: vec![takeover_key(LOCK, Timestamp(1))] };
    changes.push(("sweep", sweep, given([("swept", Value::Int(1))])));
    changes
}

/// Each change of several rows, with their keys, the rows before it, and what its guards ask.
fn shared_changes() -> Vec<(&'static str, Vec<&'static str>, Change, Rows, Given)> {
    let mut changes = Vec::new();
    let (rows, takeovers) = (seen(), BTreeSet::new());
    let at = |heartbeat: i64, token: i64, writer: Writer| Row {
        heartbeat: Timestamp(heartbeat),
        token: Timestamp(token),
        writer,
        lease: None,
    };
    // One as it was seen, and others that differ in one cell each.
    let own = || [at(2, 1, ours()), at(1, 1, ours()), at(2, 2, ours()), at(2, 1, "go".into())];
    let or_none = |rows: &[Row]| -> Vec<Option<Row>> {
        std::iter::once(None).chain(rows.iter().cloned().map(Some)).collect()
    };
    let [first, other] = READERS;
    for found in or_none(&own()) {
        for seen in or_none(&own()[..1]) {
            for vacant in or_none(&rows) {
                for in_row in or_none(&rows) {
                    let found = found.iter().map(|row| (first, stored(row, Some(7))));
                    let in_row = in_row.iter().map(|row| (WRITERS, stored(row, Some(7))));
                    let locks = found.chain(in_row).collect();
                    let values = [
                        saw("own", seen.as_ref()),
                        saw("beside", vacant.as_ref()),
                        given([("w", Value::Text(ours().as_str().into()))]),
                    ];
                    let (vacant, seen) = (vacant.clone(), seen.clone());
                    let (writer_row, writer, holder) = (WRITERS.into(), ours(), holder());
                    let change = Change::BeginRead { writer_row, vacant, seen, writer, holder };
                    let before = Rows { locks, takeovers: takeovers.clone() };
                    changes.push((
                        "begin-read",
                        vec![first, WRITERS],
                        change,
                        before,
                        values.concat(),
                    ));
                }
            }
        }
    }
    for in_row in &rows {
        for found in or_none(&own()) {
            for seen in or_none(&own()[..1]) {
                let readers = seen.iter().map(|row| (first.to_string(), row.clone())).collect();
                let found = found.iter().map(|row| (first, stored(row, Some(7))));
                // One that the poll has not seen stays.
                let locks = [(WRITERS, stored(in_row, None)), (other, stored(in_row, None))];
                let locks = locks.into_iter().chain(found).collect();
                let id = TermId { token: Timestamp(1), writer: ours() };
                let change = Change::BeginWrite { first: id, readers, holder: holder() };
                let of_term = given([
                    ("t", Value::Int(0)),
                    ("first_token", Value::Int(1)),
                    ("writer", Value::Text(ours().as_str().into())),
                ]);
                let polled = [(first, seen.as_ref()), (other, None), (WRITERS, None)];
                let polled = polled.into_iter().flat_map(|(row, seen)| saw(row, seen));
                let values = polled.chain(of_term).collect();
                let before = Rows { locks, takeovers: takeovers.clone() };
                changes.push(("begin-write", vec![WRITERS, first, other], change, before, values));
            }
        }
    }
    changes
}

fn successions() -> Vec<(Succession, Given)> {
    let with = |next: Succession| {
        let grace =
            next.grace().map(|grace| i64::try_from(grace.as_millis()).expect("a short grace"));
        let given = given([
            ("next", Value::Text(next.writer().as_str().into())),
            ("null", Value::Bool(grace.is_none())),
            ("grace", Value::Int(grace.unwrap_or_default())),
        ]);
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
    for (name, change, values) in changes() {
        let action = RELATION.action(name);
        for rows in tables(LOCK) {
            let mut values = values.clone();
            if let (Change::Evict { keep_away: Some(keep), .. }, Some((_, _, writer, _))) =
                (&change, rows.locks.get(LOCK))
            {
                // The code names the id that it found; the proof lets it be anyone who doesn't hold.
                let id = Writer::from(writer.as_str()).id().unwrap_or_default().to_string();
                let next = Writer::kept_away(&id, *keep);
                values = given([("next", Value::Text(next.as_str().into()))]);
            }
            let by_relation = World::new(&[LOCK], &rows, &values).after(action);
            let by_code = rows.judged(&[LOCK], &change);
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
fn the_relation_does_to_the_rows_of_readers_and_writers_what_the_code_does() {
    for (name, keys, change, rows, values) in shared_changes() {
        let by_relation = World::new(&keys, &rows, &values).after(RELATION.action(name));
        let by_code = rows.judged(&keys, &change);
        assert_eq!(by_relation, by_code, "{name}: {change:?} of {rows:?}");
    }
}

/// Says that a guard of the contract holds of what these looks have seen, at `read_at`.
fn contract_holds(action: &str, guard: &str, read_at: Timestamp, values: Given) -> bool {
    let rows = Rows { locks: BTreeMap::new(), takeovers: BTreeSet::new() };
    let looked = given([
        ("looked", Value::Bool(true)),
        ("saw_at", Value::Int(read_at.0)),
        ("lease", Value::Int(LEASE)),
        ("writer", Value::Text(ours().as_str().into())),
    ]);
    let values = [looked, saw(WRITERS, None), values].concat();
    let world = World::new(&[READERS[0], WRITERS], &rows, &values);
    let guards = &RELATION.action(action).guards;
    holds(&guards.iter().find(|known| known.name == guard).expect("a guard").term, &world)
}

/// In nanoseconds.
const LEASE: i64 = 10;

/// Rows that were vacant at time 100, or nearly so, for a lease of [`LEASE`].
fn rows_at_their_end() -> Vec<Option<Row>> {
    let mut rows = vec![None];
    for heartbeat in [0, 79, 80, 81, 89, 90, 91] {
        for lease in [None, Some(LEASE), Some(2 * LEASE)] {
            let lease = lease.map(|lease| Duration::from_nanos(lease.unsigned_abs()));
            let (heartbeat, token) = (Timestamp(heartbeat), Timestamp(50));
            let writers = [ours(), Writer::nobody(), Writer::successor("b")];
            let row = |writer| Some(Row { heartbeat, token, writer, lease });
            rows.extend(writers.map(row));
        }
    }
    rows
}

#[test]
fn a_reader_attempts_only_after_a_read_of_a_vacant_writers_row() {
    let (lease, read_at) = (Duration::from_nanos(LEASE.unsigned_abs()), Timestamp(100));
    let observation = |row| Observation { row, read_at, wait: Duration::ZERO };
    let mut begun = 0;
    for row in rows_at_their_end() {
        let mut reader = Reader::new(WRITERS, "a", lease);
        if reader.observed(observation(None), observation(row.clone())).row.is_some() {
            continue;
        }
        let act = Act::Insert { writer: ours() };
        let Some(Change::BeginRead { vacant, .. }) = reader.change(&act, &holder()) else {
            panic!("an insert begins to read");
        };
        assert_eq!(vacant, row, "it names the writers' row as it was read");
        let values = saw("beside", row.as_ref());
        assert!(contract_holds("send", "nobody-writes", read_at, values), "{row:?}");
        begun += 1;
    }
    assert!(begun > 20, "{begun}");
}

#[test]
fn a_writer_begins_only_after_a_poll_of_vacant_readers() {
    let (lease, read_at) = (Duration::from_nanos(LEASE.unsigned_abs()), Timestamp(100));
    let first = TermId { token: Timestamp(60), writer: ours() };
    let in_row = Row { heartbeat: read_at, token: first.token, writer: ours(), lease: None };
    let stopped = Stopped::new(first.clone(), lease);
    let mut begun = 0;
    for row in rows_at_their_end() {
        let readers: Vec<_> = row.iter().map(|row| (READERS[0].to_string(), row.clone())).collect();
        let begins = stopped.sees(Some(&in_row), &readers, read_at, &holder());
        let WriterDecision::Begin(change) = begins else { continue };
        assert_eq!(change, Change::BeginWrite { first: first.clone(), readers, holder: holder() });
        let values = saw(READERS[0], row.as_ref());
        assert!(contract_holds("begin-write", "readers-vacant", read_at, values), "{row:?}");
        begun += 1;
    }
    assert!(begun > 10, "{begun}");
    for other in [None, Some(Row { token: Timestamp(61), ..in_row.clone() })] {
        let lost = stopped.sees(other.as_ref(), &[], read_at, &holder());
        assert_eq!(lost, WriterDecision::Lost, "the poll is after the first commit");
    }
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
        for rows in tables(LOCK) {
            let alone = rows.found(LOCK, &change);
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
    let mut compared: BTreeSet<&str> = changes().iter().map(|(name, ..)| *name).collect();
    compared.extend(shared_changes().iter().map(|(name, ..)| *name));
    for action in &RELATION.actions {
        let is_judged = action.guards_of(Kind::Judge).next().is_some();
        assert!(!is_judged || compared.contains(&*action.name), "`{}`", action.name);
    }
}
