//! The relation beside `crates/protocol/src/change.rs`: every change, over every small table.
//!
//! Small is enough, since both only compare for equality: rows of two tokens, three heartbeats and a
//! writer of each form make every pattern of equal and different cells. Cells may be NULL, columns
//! may be missing, and each table has rows of other locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use spindle_model::table::{Table, stored};
use spindle_protocol::rw::{Reader, Stopped, WriterDecision};
use spindle_protocol::{
    Act, Answer, Change, Holder, Nonce, Observation, Rejection, Row, Seen, StoredRow, Succession,
    TermId, Timestamp, Writer, takeover_key,
};

use crate::relation::{Kind, RELATION};
use crate::state::{Cells, State};

const LOCK: &str = "job";
const WRITERS: &str = "writers-row";
const READERS: [&str; 2] = ["reader-1", "reader-2"];
/// The tokens that a term may displace.
const TOKENS: [i64; 2] = [1, 2];
const COMMITTED_AT: i64 = 9;
const LEASE: i64 = 5;

/// A change, as the relation calls it.
struct Case {
    change: Change,
    /// The action; none if rows are only swept.
    action: Option<&'static str>,
    /// The tokens whose takeover rows are swept.
    swept: Vec<i64>,
    /// Its own row, and the others that it reads.
    rows: Vec<&'static str>,
    /// The action's parameters, and what its looks have seen.
    state: State,
}

impl Case {
    fn new(change: Change) -> Case {
        let mut case = Case {
            change: change.clone(),
            action: None,
            swept: Vec::new(),
            rows: vec![LOCK],
            state: State::default(),
        };
        case.action = match change {
            Change::Insert { writer, .. } => case.attempts("insert", &writer, None),
            Change::Takeover { seen, writer, over_leftover, .. } => {
                case.state.set("over_leftover", over_leftover);
                case.attempts("takeover", &writer, Some(&seen))
            }
            Change::Heartbeat { term, .. } => case.of_term("heartbeat", &term),
            Change::KeepWriting { first, .. } => case.of_term("keep-writing", &first),
            Change::Fence { term } => case.of_term("fence", &term),
            Change::EndRead { term } => case.of_term("end-read", &term),
            Change::Release { term, next, displaced, .. } => {
                case.leaves(&next, displaced);
                case.of_term("release", &term)
            }
            Change::EndWriting { first, next, displaced } => {
                case.leaves(&next, displaced);
                case.of_term("end-writing", &first)
            }
            Change::Evict { .. } => {
                case.leaves(&Succession::Anyone, None);
                Some("evict")
            }
            Change::Seize { next, .. } => {
                case.leaves(&next, None);
                Some("seize")
            }
            Change::Remove { seen, takeovers } => {
                case.sweeps(&takeovers);
                case.state.set("l", "look");
                case.look("look", LOCK, seen.as_ref());
                seen.map(|_| "remove")
            }
            Change::Sweep { keys } => {
                case.sweeps(&keys);
                None
            }
            Change::BeginRead { vacant, seen, writer, .. } => {
                case.rows = vec![READERS[0], WRITERS];
                case.look("beside", WRITERS, vacant.as_ref());
                case.attempts("begin-read", &writer, seen.as_ref())
            }
            Change::BeginWrite { first, readers, .. } => {
                case.rows = vec![WRITERS, READERS[0], READERS[1]];
                case.state.set("glance", "no look");
                for reader in READERS {
                    let polled = readers.iter().find(|(key, _)| key == reader);
                    case.look(reader, reader, polled.map(|(_, row)| row));
                    case.state.set(format!("glance {reader}"), reader);
                }
                case.of_term("begin-write", &first)
            }
        };
        case.names();
        case
    }

    /// There is one of each: the action's own.
    fn names(&mut self) {
        let own = self.rows[0];
        let names = [("of", own), ("ro", own), ("own", "own"), ("beside", "beside")];
        names.into_iter().for_each(|(name, value)| self.state.set(name, value));
        self.state.set("writers", WRITERS);
        self.state.set("ts", COMMITTED_AT);
        self.state.set("lease", LEASE);
        ["t", "h", "f"].iter().for_each(|name| self.state.set(*name, *name));
        READERS.iter().for_each(|reader| self.state.set(format!("reads {reader}"), true));
        self.rows.iter().for_each(|row| self.state.add("Row", row));
    }

    fn look(&mut self, look: &str, row: &str, seen: Option<&Row>) {
        let cells = seen.map(|seen| cells(&stored(row, seen)));
        self.state.look(look, row, cells, COMMITTED_AT);
    }

    fn attempts(
        &mut self,
        action: &'static str,
        writer: &Writer,
        seen: Option<&Row>,
    ) -> Option<&'static str> {
        self.state.set("w", writer);
        self.look("own", self.rows[0], seen);
        Some(action)
    }

    fn of_term(&mut self, action: &'static str, term: &TermId) -> Option<&'static str> {
        self.state.set("writer", &term.writer);
        self.state.set("term_token", term.token.0);
        self.state.set("first_token", term.token.0);
        Some(action)
    }

    fn leaves(&mut self, next: &Succession, displaced: Option<Timestamp>) {
        let grace = next.grace().map(|grace| i64::try_from(grace.as_millis()).expect("short"));
        self.state.set("next", next.writer());
        self.state.set("null", grace.is_none());
        self.state.set("grace", grace.unwrap_or_default());
        let (writer, heartbeat) = (Writer::nobody(), Timestamp(1));
        let displaced = displaced.map(|token| Row { heartbeat, token, writer, lease: None });
        self.look("own", LOCK, displaced.as_ref());
    }

    fn sweeps(&mut self, keys: &[String]) {
        let is_swept = |token: &i64| keys.contains(&takeover_key(LOCK, Timestamp(*token)));
        self.swept = TOKENS.into_iter().filter(is_swept).collect();
    }

    /// Returns the rows after it by the relation, or its refusal.
    fn by_relation(&self, before: &Table) -> Result<Table, Rejection> {
        let mut state = self.state.clone();
        let mut after: BTreeMap<&str, StoredRow> =
            before.rows().map(|row| (row.key.as_str(), row.clone())).collect();
        state.set("has_column", before.optional_columns);
        self.rows.iter().for_each(|row| state.put(row, before.get(row).map(cells)));
        let is_takeover = self.action == Some("takeover");
        let takeover_keys = TOKENS.map(|token| takeover_key(LOCK, Timestamp(token)));
        for (token, key) in TOKENS.iter().zip(&takeover_keys) {
            // A row of a lock that has such a name, from another's hand, is in the way of a takeover.
            let is_there = |row: &StoredRow| is_takeover || row.is_takeover();
            state
                .set(format!("takeover_row {LOCK} {token}"), before.get(key).is_some_and(is_there));
        }
        if let (Change::Evict { keep_away: Some(keep), .. }, Some(row)) =
            (&self.change, before.get(LOCK))
        {
            // The code names the id that it found; the proof lets it be anyone who doesn't hold.
            state.set("next", Writer::kept_away(row.writer.id().unwrap_or_default(), *keep));
        }
        if let Some(action) = self.action.map(|name| RELATION.action(name)) {
            if let Some(guard) = state.refused_by(action, &[Kind::Judge], &[]) {
                return Err(self.rejection(guard, before));
            }
            state.apply(action, &[]);
        } else if matches!(self.change, Change::Remove { .. }) && before.get(LOCK).is_some() {
            return Err(self.rejection("row-is-absent", before));
        }
        for token in &self.swept {
            state.apply(RELATION.action("sweep"), &[("swept", &token.to_string())]);
        }
        for row in &self.rows {
            match state.cells(row) {
                Some(cells) => after.insert(row, self.written(row, cells, before.get(row))),
                None => after.remove(row),
            };
        }
        for (token, key) in TOKENS.iter().zip(&takeover_keys) {
            let is_there = state.holds(&RELATION.term(&format!("(takeover_row ro {token})")), &[]);
            if let Change::Takeover { seen, writer, .. } = &self.change
                && seen.token.0 == *token
            {
                assert!(is_there, "a takeover leaves its row");
                let row = after.entry(key).or_insert_with(|| StoredRow::new(key.clone()));
                (row.token, row.writer) = (Some(Timestamp(COMMITTED_AT)), writer.clone());
            } else if !is_there && before.get(key).is_some_and(StoredRow::is_takeover) {
                after.remove(key.as_str());
            }
        }
        let is_needless =
            self.action.is_none_or(|name| name == "remove") && after.values().eq(before.rows());
        let after = Table::new(before.optional_columns, after.into_values());
        if is_needless { Err(Rejection::Needless) } else { Ok(after) }
    }

    /// Returns the rejection that this guard stands for.
    fn rejection(&self, guard: &str, before: &Table) -> Rejection {
        let row = match (self.action, guard) {
            (_, "no-takeover-row") => return Rejection::TakeoverRowExists,
            (Some("evict" | "seize"), _) => return Rejection::Needless,
            (_, guard) if guard.starts_with("writers-") => WRITERS,
            (_, guard) if guard.starts_with("readers-") => READERS[0],
            _ => self.rows[0],
        };
        let row = before.get(row).map(StoredRow::row);
        Rejection::Changed(row.map(|row| Seen { token: row.token, writer: row.writer }))
    }

    /// Returns a row with these cells. The text goes with the token: each commit that writes one
    /// writes the other. A heartbeat may say what a holder says.
    fn written(&self, key: &str, cells: Cells, before: Option<&StoredRow>) -> StoredRow {
        let (heartbeat, token, writer, lease_ms) = cells;
        let mut row = StoredRow {
            heartbeat: heartbeat.map(Timestamp),
            token: token.map(Timestamp),
            writer: writer.as_str().into(),
            lease_ms,
            ..StoredRow::new(key)
        };
        row.info = match &self.change {
            _ if token != Some(COMMITTED_AT) => before.and_then(|row| row.info.clone()),
            _ if key != self.rows[0] => None,
            Change::Release { info, .. }
            | Change::Evict { info, .. }
            | Change::Seize { info, .. } => info.clone(),
            Change::EndWriting { .. } => None,
            _ => holder().info,
        };
        if let Change::Heartbeat { holder: Some(holder), .. }
        | Change::KeepWriting { holder: Some(holder), .. } = &self.change
        {
            (row.lease_ms, row.info) = (Some(LEASE), holder.info.clone());
        }
        row
    }

    /// Returns the rows after the code's own judgement, or its refusal.
    fn by_code(&self, before: &Table) -> Result<Table, Rejection> {
        let mut after = before.clone();
        match after.change_of(self.rows[0], Timestamp(COMMITTED_AT - 1), &self.change) {
            Answer::Applied { at: Timestamp(COMMITTED_AT) } => Ok(after),
            Answer::Rejected(rejection) => Err(rejection),
            other => panic!("{other:?}: {:?} of {before:?}", self.change),
        }
    }
}

fn cells(row: &StoredRow) -> Cells {
    let time = |time: Option<Timestamp>| time.map(|time| time.0);
    (time(row.heartbeat), time(row.token), row.writer.as_str().into(), row.lease_ms)
}

fn ours() -> Writer {
    Writer::term("a", Nonce { instance: 1, attempt: 1 })
}

fn writers() -> Vec<Writer> {
    let other = Writer::term("a", Nonce { instance: 1, attempt: 2 });
    let second = ours().second().expect("a term's");
    let kept_away = Writer::kept_away("a", Duration::from_millis(3));
    let named = [Writer::nobody(), Writer::successor("b"), Writer::cooldown(), kept_away];
    [ours(), other, second].into_iter().chain(named).chain(["go".into()]).collect()
}

fn row(heartbeat: i64, token: i64, writer: Writer) -> Row {
    Row { heartbeat: Timestamp(heartbeat), token: Timestamp(token), writer, lease: None }
}

/// Rows that differ in one cell each, and none.
fn few() -> Vec<Option<Row>> {
    let rows = [row(1, 1, ours()), row(2, 1, ours()), row(1, 2, ours()), row(1, 1, "go".into())];
    let released = [row(0, 1, ours()), row(0, 1, Writer::nobody()), row(1, 1, Writer::cooldown())];
    std::iter::once(None).chain(rows.into_iter().chain(released).map(Some)).collect()
}

/// Each row of few values, or none.
fn every_row(key: &str, optional_columns: bool) -> Vec<Option<StoredRow>> {
    let mut rows = vec![None];
    let leases: &[_] = if optional_columns { &[None, Some(7)] } else { &[None] };
    for heartbeat in [None, Some(0), Some(1), Some(2)] {
        for token in [None, Some(1), Some(2)] {
            for writer in writers() {
                rows.extend(leases.iter().map(|lease| {
                    Some(StoredRow {
                        key: key.into(),
                        heartbeat: heartbeat.map(Timestamp),
                        token: token.map(Timestamp),
                        writer: writer.clone(),
                        lease_ms: *lease,
                        info: lease.map(|_| "text".into()),
                    })
                }));
            }
        }
    }
    rows
}

/// Each table of these rows, beside takeover rows and rows of others.
fn tables(rows: &[&str]) -> Vec<Table> {
    let other = |key: &str| stored(key, &row(1, 1, ours()));
    let takeover = |lock, token| StoredRow {
        token: Some(Timestamp(2)),
        ..StoredRow::new(takeover_key(lock, Timestamp(token)))
    };
    let named_so = StoredRow { heartbeat: Some(Timestamp(1)), ..takeover(LOCK, 1) };
    let beside: Vec<Vec<StoredRow>> = if let [_, second, third @ ..] = rows {
        let second = few().into_iter().map(|row| row.map(|row| stored(second, &row)));
        second
            .map(|row| row.into_iter().chain(third.iter().map(|key| other(key))).collect())
            .collect()
    } else {
        let one = takeover(LOCK, 1);
        vec![vec![], vec![one.clone()], vec![named_so], vec![one, takeover(LOCK, 2)]]
    };
    let others = [other("job_0"), other("jobs"), takeover("jobs", 1)];
    let mut tables = Vec::new();
    for optional_columns in [true, false] {
        for own in every_row(rows[0], optional_columns) {
            tables.extend(beside.iter().map(|beside| {
                let all = own.iter().chain(beside).chain(&others).cloned();
                Table::new(optional_columns, all)
            }));
        }
    }
    tables
}

fn holder() -> Holder {
    Holder { lease: Duration::from_millis(5), info: Some("held".into()) }
}

fn successions() -> [Succession; 3] {
    let grace = Duration::from_millis(7);
    let successor = Succession::Successor { id: "b".into(), grace };
    [Succession::Anyone, successor, Succession::Cooldown { rest: grace }]
}

/// Each change of one row.
fn changes() -> Vec<Change> {
    let info = Some("left".to_string());
    let takeovers = || TOKENS.map(|token| takeover_key(LOCK, Timestamp(token))).to_vec();
    let mut changes = vec![
        Change::Insert { writer: ours(), holder: holder() },
        Change::Evict { keep_away: None, info: None },
        Change::Evict { keep_away: Some(Duration::from_millis(3)), info: info.clone() },
        Change::Sweep { keys: takeovers()[..1].to_vec() },
        Change::Remove { seen: None, takeovers: takeovers() },
    ];
    changes.extend(successions().map(|next| Change::Seize { next, info: info.clone() }));
    for seen in writers().into_iter().flat_map(|writer| [0, 1].map(|at| row(at, 1, writer.clone())))
    {
        for over_leftover in [false, true] {
            let (seen, writer, holder) = (seen.clone(), ours(), holder());
            changes.push(Change::Takeover { seen, writer, over_leftover, holder });
        }
        changes.push(Change::Remove { seen: Some(seen.clone()), takeovers: Vec::new() });
        changes.push(Change::Remove { seen: Some(seen), takeovers: takeovers() });
    }
    for writer in writers() {
        let term = || TermId { token: Timestamp(1), writer: writer.clone() };
        changes.extend([Change::Fence { term: term() }, Change::EndRead { term: term() }]);
        for holder in [None, Some(holder())] {
            changes.push(Change::Heartbeat { term: term(), holder: holder.clone() });
            let first = TermId { writer: ours(), ..term() };
            changes.push(Change::KeepWriting { first, holder });
        }
        for displaced in [None, Some(Timestamp(1))] {
            for next in successions() {
                let first = TermId { writer: ours(), ..term() };
                changes.push(Change::EndWriting { first, next: next.clone(), displaced });
                changes.push(Change::Release { term: term(), next, displaced, info: info.clone() });
            }
        }
    }
    changes
}

/// Each change of several rows.
fn shared_changes() -> Vec<Change> {
    let mut changes = Vec::new();
    for seen in &few()[..2] {
        for vacant in few() {
            let (writer_row, writer, seen) = (WRITERS.into(), ours(), seen.clone());
            changes.push(Change::BeginRead { writer_row, vacant, seen, writer, holder: holder() });
        }
        let readers = seen.iter().map(|row| (READERS[0].to_string(), row.clone())).collect();
        let first = TermId { token: Timestamp(1), writer: ours() };
        changes.push(Change::BeginWrite { first, readers, holder: holder() });
    }
    changes
}

/// Compares every change with the relation, over every table; returns how often.
fn compared(changes: Vec<Change>) -> usize {
    let mut compared = 0;
    for case in changes.into_iter().map(Case::new) {
        for table in tables(&case.rows) {
            let (by_relation, by_code) = (case.by_relation(&table), case.by_code(&table));
            let rows = |after: &Result<Table, Rejection>| -> Result<Vec<StoredRow>, Rejection> {
                after.as_ref().map(|after| after.rows().cloned().collect()).map_err(Clone::clone)
            };
            assert_eq!(rows(&by_relation), rows(&by_code), "{:?} of {table:?}", case.change);
            compared += 1;
        }
    }
    compared
}

#[test]
fn the_relation_does_to_every_small_row_what_the_code_does() {
    let compared = compared(changes());
    assert!(compared > 100_000, "only {compared} compared");
}

#[test]
fn the_relation_does_to_the_rows_of_readers_and_writers_what_the_code_does() {
    let compared = compared(shared_changes());
    assert!(compared > 20_000, "only {compared} compared");
}

/// Rows that were vacant at time 100, or nearly so, for a lease of [`LEASE`] nanoseconds.
fn rows_at_their_end() -> Vec<Option<Row>> {
    let mut rows = vec![None];
    for heartbeat in [0, 89, 90, 91, 94, 95, 96] {
        for lease in [None, Some(LEASE), Some(2 * LEASE)] {
            let lease = lease.map(|lease| Duration::from_nanos(lease.unsigned_abs()));
            let writers = [ours(), Writer::nobody(), Writer::successor("b")];
            rows.extend(writers.map(|writer| Some(Row { lease, ..row(heartbeat, 50, writer) })));
        }
    }
    rows
}

/// Asserts that a guard of the contract holds of a look that has seen this, at time 100.
fn assert_contract(action: &str, guard: &str, look: &str, at: &str, seen: Option<&Row>) {
    let mut state = State::default();
    let nanoseconds = |lease: Duration| i64::try_from(lease.as_nanos()).expect("short");
    let cells = seen.map(|row| {
        let (heartbeat, token, writer, _) = cells(&stored(at, row));
        (heartbeat, token, writer, row.lease.map(nanoseconds))
    });
    state.look(look, at, cells, 100);
    for (name, value) in [("beside", look), ("glance", look), ("writers", WRITERS)] {
        state.set(name, value);
    }
    state.set("lease", LEASE);
    state.add("Row", at);
    READERS.iter().for_each(|reader| state.set(format!("reads {reader}"), true));
    state.set("of", READERS[0]);
    let guards = &RELATION.action(action).guards;
    let guard = guards.iter().find(|known| known.name == guard).expect("a guard");
    assert!(
        state.holds(&guard.term, &[("w", "w"), ("t", "t")]),
        "{action}/{}: {seen:?}",
        guard.name
    );
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
        assert_contract("send", "nobody-writes", "beside", WRITERS, row.as_ref());
        begun += 1;
    }
    assert!(begun > 20, "{begun}");
}

#[test]
fn a_writer_begins_only_after_a_poll_of_vacant_readers() {
    let (lease, read_at) = (Duration::from_nanos(LEASE.unsigned_abs()), Timestamp(100));
    let first = TermId { token: Timestamp(60), writer: ours() };
    let in_row = row(100, 60, ours());
    let stopped = Stopped::new(first.clone(), lease);
    let mut begun = 0;
    for row in rows_at_their_end() {
        let readers: Vec<_> = row.iter().map(|row| (READERS[0].to_string(), row.clone())).collect();
        let begins = stopped.sees(Some(&in_row), &readers, read_at, &holder());
        let WriterDecision::Begin(change) = begins else { continue };
        assert_eq!(change, Change::BeginWrite { first: first.clone(), readers, holder: holder() });
        assert_contract("begin-write", "readers-vacant", "poll", READERS[0], row.as_ref());
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
    for case in changes().into_iter().chain(shared_changes()).map(Case::new) {
        let (change, lock) = (&case.change, case.rows[0]);
        let reads = change.reads(lock);
        for table in tables(&case.rows) {
            let batch: Vec<StoredRow> = table.rows().cloned().collect();
            let judged = change.judge(lock, &table.found(lock, change));
            assert_eq!(change.judge(lock, &batch), judged, "{change:?} of {table:?}");
            for write in judged.into_iter().flatten() {
                assert!(reads.keys.contains(&write.key), "{change:?} writes {write:?} unread");
            }
        }
    }
}

#[test]
fn no_writer_that_a_release_or_an_eviction_leaves_names_a_holder() {
    let evictions = [Writer::nobody(), Writer::kept_away("a", Duration::from_millis(3))];
    for writer in successions().iter().map(Succession::writer).chain(evictions) {
        assert_eq!(writer.id(), None, "`{writer}`");
    }
}

#[test]
fn every_action_that_the_code_judges_is_compared() {
    let cases = changes().into_iter().chain(shared_changes()).map(Case::new);
    let compared: BTreeSet<&str> = cases.filter_map(|case| case.action).collect();
    for action in &RELATION.actions {
        let is_judged = action.guards.iter().any(|guard| guard.kind == Kind::Judge);
        assert!(!is_judged || compared.contains(&*action.name), "`{}`", action.name);
    }
}
