//! The relation beside `crates/protocol/src/change.rs`: every change, over every small table.
//!
//! Small is enough, since both only compare for equality: rows of two tokens, three heartbeats and a
//! writer of each form make every pattern of equal and different cells. Cells may be NULL, and each
//! table has rows of other locks.

use std::collections::HashSet;
use std::time::Duration;

use itertools::iproduct;
use spindle_model::table::{Table, stored, takeover_row};
use spindle_protocol::line::Place;
use spindle_protocol::rw::{Reader, WriteLock};
use spindle_protocol::{
    Act, Answer, Change, Holder, Nonce, Observation, Rejection, Row, Seen, StoredRow, Succession,
    TermId, Timestamp, Writer, takeover_key,
};

use crate::relation::{RELATION, arguments, head};
use crate::state::{Cells, State, cells_of, guards};

const LOCK: &str = "job";
const GATE: &str = "gate";
const WRITE_LOCK: &str = "write-lock";
const READERS: [&str; 2] = ["reader-1", "reader-2"];
/// The tokens that a term may displace.
const TOKENS: [i64; 2] = [1, 2];
const COMMITTED_AT: i64 = 9;
const LEASE: i64 = 5;
/// The place in line of another process.
const PLACE: &str = "3 5 b#0000000000000002";

/// A lease of as many nanoseconds, and a look at a row after it or nearly so.
const TERM: Duration = Duration::from_nanos(LEASE.unsigned_abs());
const READ_AT: Timestamp = Timestamp(100);

/// The values that a change is made of. Each takes those that it has a use for.
#[derive(Clone)]
struct Given {
    /// The row as it was seen, and a row of the term.
    seen: Option<Row>,
    /// Another row as it was seen: the gate by a reader, a reader's by a writer.
    beside: Option<Row>,
    /// The write lock as a reader has seen it.
    beyond: Option<Row>,
    next: Succession,
    /// Asks for what is optional in the change.
    has_option: bool,
}

/// A change, as the relation calls it.
struct Case {
    action: &'static str,
    change: Change,
    given: Given,
    /// The tokens whose takeover rows are deleted beside the one that the row names.
    deleted: &'static [i64],
    /// Its own row, and the others that it reads.
    rows: &'static [&'static str],
    /// The action's parameters, and what its looks have seen.
    state: State,
}

/// The tokens that a term may displace, with the keys of their takeover rows.
fn takeovers(lock: &str) -> [(i64, String); 2] {
    TOKENS.map(|token| (token, takeover_key(lock, Timestamp(token))))
}

impl Case {
    /// Returns the change that is this action, if these values make one.
    fn new(action: &'static str, given: Given) -> Option<Case> {
        let Given { seen, beside, beyond, next, has_option } = given.clone();
        if matches!(next, Succession::InLine { .. }) && action != "release" {
            return None;
        }
        let (writer, holder, info) = (ours(), holder(), has_option.then(|| "left".into()));
        let token = Timestamp(TOKENS[0]);
        let is_to_write = action == "begin-write";
        let of = seen.as_ref().filter(|_| !is_to_write);
        let term_writer = of.map_or_else(ours, |seen| seen.writer.clone());
        let term = TermId { token, writer: term_writer };
        let deleted: &[i64] = if action == "remove" && has_option { &TOKENS } else { &[] };
        let takeovers = deleted.iter().map(|token| takeover_key(LOCK, Timestamp(*token))).collect();
        let rows: &[&str] = match action {
            "begin-read" => &[READERS[0], GATE, WRITE_LOCK],
            _ if is_to_write => &[WRITE_LOCK, GATE, READERS[0], READERS[1]],
            _ => &[LOCK],
        };
        let state = names(rows[0], &given, &term, is_to_write);
        let change = match action {
            "insert" => Change::Insert { writer, holder },
            "takeover" => Change::Takeover { seen: seen?, writer, holder, passes: None },
            "heartbeat" => Change::Heartbeat { term, looks: false },
            "fence" => Change::Fence { term },
            "end-read" => Change::EndRead { term },
            "release" => Change::Release { term, next },
            "evict" => Change::Evict { info },
            "seize" => Change::Seize { next, info },
            "remove" => Change::Remove { seen, takeovers },
            "begin-read" => {
                let vacant = [(GATE.into(), beside), (WRITE_LOCK.into(), beyond)];
                Change::BeginRead { vacant: vacant.into(), seen, writer, holder }
            }
            "begin-write" => {
                let gate = (GATE.to_string(), term);
                let readers = beside.map(|row| (READERS[0].into(), row)).into_iter().collect();
                let passes = None;
                let begin = Box::new(match seen {
                    Some(seen) => Change::Takeover { seen, writer, holder, passes },
                    None => Change::Insert { writer, holder },
                });
                Change::BeginWrite { gate, readers, begin }
            }
            other => panic!("no change is the action `{other}`"),
        };
        Some(Case { action, change, given, deleted, rows, state })
    }

    /// Returns the rows after it by the relation, or its refusal.
    fn by_relation(&self, before: &Table) -> Result<Table, Rejection> {
        let mut state = self.state_of(before);
        self.apply(&mut state, before)?;
        let mut after = before.clone();
        for row in self.rows {
            match state.cells(row) {
                Some(cells) => after.put(self.written(row, cells, before.get(row))),
                None => after.retain(|other| other.key != *row),
            }
        }
        self.put_takeover_rows(&state, before, &mut after);
        let is_needless = self.is_without_a_row() && after.rows().eq(before.rows());
        if is_needless { Err(Rejection::Needless) } else { Ok(after) }
    }

    /// Returns the relation's view of the table.
    fn state_of(&self, before: &Table) -> State {
        let mut state = self.state.clone();
        self.rows.iter().for_each(|row| state.put(row, before.get(row).map(cells)));
        for (token, key) in takeovers(self.rows[0]) {
            // No lock of ours has such a name, so any row is a takeover row.
            let is_there = before.get(&key).is_some();
            state.set(format!("takeover_row {} {token}", self.rows[0]), is_there);
        }
        if self.action == "evict" {
            state.set("next", Writer::nobody());
        }
        // A release that goes by the line names whoever stands first.
        if let (Succession::InLine { grace }, Some(place)) =
            (&self.given.next, before.get(LOCK).and_then(Place::of))
        {
            state.set("next", Writer::successor(&place.waiter));
            state.set("null", false);
            state.set("grace", grace.as_millis());
        }
        state
    }

    /// Returns true for a removal that saw no row: takeover rows go, and nothing else.
    fn is_without_a_row(&self) -> bool {
        self.action == "remove" && self.given.seen.is_none()
    }

    /// Carries the action out, unless a guard refuses it, and the deletions that go with it.
    fn apply(&self, state: &mut State, before: &Table) -> Result<(), Rejection> {
        if self.is_without_a_row() {
            if before.get(LOCK).is_some() {
                return Err(self.rejection("row-is-absent", before));
            }
        } else {
            let mut judge = guards(self.action, "judge");
            if let Some([guard, _]) = judge.find(|[_, holds]| !state.holds(holds, &[])) {
                return Err(self.rejection(head(guard), before));
            }
            let mut contract = guards(self.action, "contract");
            let named = contract.find(|[guard, _]| head(guard) == "names-no-holder");
            assert!(named.is_none_or(|[_, holds]| state.holds(holds, &[])), "{:?}", self.change);
            state.apply(self.action, &[]);
        }
        for token in self.deleted {
            let row = before.get(&takeover_key(LOCK, Timestamp(*token)));
            // A row that was found by its name alone may be anything.
            if row.is_some_and(StoredRow::is_takeover) {
                state.apply("delete-takeover-row", &[("of_token", &token.to_string())]);
            }
        }
        Ok(())
    }

    /// Adds the takeover row that it leaves, and removes those that are deleted.
    fn put_takeover_rows(&self, state: &State, before: &Table, after: &mut Table) {
        let lock = self.rows[0];
        let begin = match &self.change {
            Change::BeginWrite { begin, .. } => begin,
            change => change,
        };
        for (token, key) in takeovers(lock) {
            let is_there = state.tells(&format!("(takeover_row ro {token})"), &[]) == "true";
            if let Change::Takeover { seen, writer, .. } = begin
                && seen.token.0 == token
            {
                assert!(is_there, "a takeover leaves its row");
                let left = takeover_row(key.clone(), Timestamp(COMMITTED_AT), writer.clone());
                let is_new = before.get(lock).is_some_and(|row| row.displaced == Some(seen.token));
                let heartbeat = before.get(&key).filter(|_| !is_new).and_then(|row| row.heartbeat);
                after.put(StoredRow { heartbeat, ..left });
            } else if !is_there {
                after.retain(|row| row.key != key);
            }
        }
    }

    /// Returns the rejection that this guard stands for.
    fn rejection(&self, guard: &str, before: &Table) -> Rejection {
        let row = match (self.action, guard) {
            ("evict" | "seize", _) => return Rejection::Needless,
            (_, guard) if guard.starts_with("gate-") => GATE,
            (_, guard) if guard.starts_with("write-lock-") => WRITE_LOCK,
            (_, guard) if guard.starts_with("readers-") => READERS[0],
            _ => self.rows[0],
        };
        let row = before.get(row).map(StoredRow::row);
        Rejection::Changed(row.map(|row| Seen { token: row.token, writer: row.writer }))
    }

    /// Returns a row with these cells. The text goes with the token: each commit that writes one
    /// writes the other.
    fn written(&self, key: &str, cells: Cells, before: Option<&StoredRow>) -> StoredRow {
        let (heartbeat, token, writer, lease_ms, displaced) = cells;
        let is_moved = matches!(self.given.next, Succession::InLine { .. });
        let info = match self.action {
            _ if token != Some(Timestamp(COMMITTED_AT)) => before.and_then(|row| row.info.clone()),
            _ if key != self.rows[0] || self.action == "release" => None,
            "evict" | "seize" => self.given.has_option.then(|| "left".into()),
            _ => holder().info,
        };
        StoredRow {
            key: key.into(),
            heartbeat,
            token,
            writer,
            lease_ms,
            info,
            displaced,
            next: before.and_then(|row| row.next.clone()).filter(|_| !is_moved),
        }
    }

    /// Returns the rows after the code's own judgement, or its refusal. A batch that has read other
    /// rows as well is judged alike.
    fn by_code(&self, before: &Table) -> Result<Table, Rejection> {
        let (change, lock, mut after) = (&self.change, self.rows[0], before.clone());
        let judged = change.judge(lock, &before.found(lock, change));
        let batch: Vec<StoredRow> = before.rows().cloned().collect();
        assert_eq!(change.judge(lock, &batch), judged, "{change:?} of {before:?}");
        let named = before.get(lock).and_then(|row| Some(takeover_key(lock, row.displaced?)));
        let is_known = |key| change.reads(lock).keys.contains(key) || named.as_ref() == Some(key);
        assert!(
            judged.iter().flatten().all(|write| is_known(&write.key)),
            "{change:?}: {judged:?}"
        );
        match after.change_of(lock, Timestamp(COMMITTED_AT - 1), change) {
            Answer::Applied { at: Timestamp(COMMITTED_AT) } => Ok(after),
            Answer::Rejected(rejection) => Err(rejection),
            other => panic!("{other:?}: {change:?} of {before:?}"),
        }
    }
}

/// Returns the state in which there is one of each: the action's own.
fn names(own: &str, given: &Given, term: &TermId, is_to_write: bool) -> State {
    let mut state = State::default();
    let [seen, beside, beyond] = [&given.seen, &given.beside, &given.beyond].map(Option::as_ref);
    let glance = if is_to_write { beside } else { None };
    for (look, at, seen) in [
        ("own", own, seen),
        ("at_gate", GATE, beside),
        ("at_write_lock", WRITE_LOCK, beyond),
        (READERS[0], READERS[0], glance),
        (READERS[1], READERS[1], None),
    ] {
        state.look(look, at, seen.map(|seen| cells(&stored(at, seen))), COMMITTED_AT);
    }
    for reader in READERS {
        state.set(format!("reads {reader}"), true);
        state.set(format!("glance {reader}"), reader);
    }
    let grace = given.next.grace();
    let (w, next, null) = (ours(), given.next.writer(), grace.is_none());
    let (token, grace) = (term.token.0, grace.unwrap_or_default().as_millis());
    state.set_all(&format!(
        "of={own} ro={own} own=own l=own at_gate=at_gate at_write_lock=at_write_lock glance=none
         gate={GATE} write_lock={WRITE_LOCK} under=under t=t h=h f=f w={w} writer={}
         term_token={token} ts={COMMITTED_AT} lease={LEASE} next={next} null={null} grace={grace}",
        term.writer
    ));
    [own, GATE, WRITE_LOCK, READERS[0], READERS[1]].iter().for_each(|row| state.add("Row", row));
    state
}

fn cells(row: &StoredRow) -> Cells {
    (row.heartbeat, row.token, row.writer.clone(), row.lease_ms, row.displaced)
}

fn ours() -> Writer {
    Writer::term("a", Nonce { instance: 1, attempt: 1 })
}

fn writers() -> Vec<Writer> {
    let other = Writer::term("a", Nonce { instance: 1, attempt: 2 });
    let named = [Writer::nobody(), Writer::successor("b")];
    [ours(), other].into_iter().chain(named).chain(["go".into()]).collect()
}

fn row(heartbeat: i64, token: i64, writer: Writer) -> Row {
    Row { heartbeat: Timestamp(heartbeat), token: Timestamp(token), writer, lease: None }
}

fn holder() -> Holder {
    Holder { lease: Duration::from_millis(LEASE.unsigned_abs()), info: Some("held".into()) }
}

fn successions() -> [Succession; 3] {
    let grace = Duration::from_millis(7);
    let successor = Succession::Successor { id: "b".into(), grace };
    let in_line = Succession::InLine { grace };
    [Succession::Anyone, successor, in_line]
}

/// Rows that differ in one cell each, and none.
fn few() -> Vec<Option<Row>> {
    let rows = [row(1, 1, ours()), row(2, 1, ours()), row(1, 2, ours()), row(1, 1, "go".into())];
    let released =
        [row(0, 1, ours()), row(0, 1, Writer::nobody()), row(1, 1, Writer::successor("b"))];
    std::iter::once(None).chain(rows.into_iter().chain(released).map(Some)).collect()
}

/// Each row of few values, or none.
fn every_row(key: &str) -> Vec<Option<StoredRow>> {
    let times = [0, 1, 2].map(|time| Some(Timestamp(time)));
    let (heartbeats, tokens) = (times.iter().chain([&None]), times[1..].iter().chain([&None]));
    let displaced = TOKENS.map(|token| Some(Timestamp(token)));
    // They have nothing to do with each other.
    let said = [(None, None), (Some(7), displaced[0]), (None, displaced[1])];
    let rows = iproduct!(heartbeats, tokens, writers(), said).map(|cells| {
        let (&heartbeat, &token, writer, (lease_ms, displaced)) = cells;
        let (key, info) = (key.into(), lease_ms.map(|_| "text".into()));
        let next = info.as_ref().map(|_| PLACE.to_string());
        StoredRow { key, heartbeat, token, writer, lease_ms, info, displaced, next }
    });
    std::iter::once(None).chain(rows.map(Some)).collect()
}

/// Each table of these rows, beside takeover rows and rows of others.
fn tables(rows: &[&str]) -> Vec<Table> {
    let other = |key: &str| stored(key, &row(1, 1, ours()));
    let takeover = |lock, token| {
        takeover_row(takeover_key(lock, Timestamp(token)), Timestamp(2), Writer::nobody())
    };
    let named_so = StoredRow { heartbeat: Some(Timestamp(1)), ..takeover(LOCK, 1) };
    let few_of = |key| few().into_iter().map(move |row| Some(stored(key, &row?)));
    let beside: Vec<Vec<StoredRow>> = if let [_, second, third, fourth @ ..] = rows {
        let fourth: Vec<_> = fourth.iter().map(|key| other(key)).collect();
        let pairs = iproduct!(few_of(second), few_of(third));
        let rows = pairs.map(|(second, third)| second.into_iter().chain(third));
        rows.map(|rows| rows.chain(fourth.clone()).collect()).collect()
    } else {
        let one = takeover(LOCK, 1);
        vec![vec![], vec![one.clone()], vec![named_so], vec![one, takeover(LOCK, 2)]]
    };
    let others = [other("job_0"), other("jobs"), takeover("jobs", 1)];
    let own = if rows.len() > 1 { few_of(rows[0]).collect() } else { every_row(rows[0]) };
    iproduct!(own, beside)
        .map(|(own, beside)| Table::new(own.into_iter().chain(beside).chain(others.clone())))
        .collect()
}

/// Everything that a change of one row, or of several, may be made of.
fn every_given(is_shared: bool) -> impl Iterator<Item = Given> {
    let seen = iproduct!([0, 1], writers()).map(|(heartbeat, writer)| row(heartbeat, 1, writer));
    let every_seen = std::iter::once(None).chain(seen.map(Some)).collect();
    let (seen, beside, beyond) = if is_shared {
        let beyond = [None, Some(row(1, 1, ours())), Some(row(0, 1, Writer::nobody()))];
        (few()[..2].to_vec(), few(), beyond.to_vec())
    } else {
        (every_seen, vec![None], vec![None])
    };
    iproduct!(seen, beside, beyond, successions(), [false, true]).map(
        |(seen, beside, beyond, next, has_option)| Given { seen, beside, beyond, next, has_option },
    )
}

#[test]
fn the_relation_does_to_every_small_table_what_the_code_does() {
    let (mut known, mut compared) = (HashSet::new(), [0, 0]);
    let actions = RELATION.items.iter().filter(|item| head(item) == "action");
    let names = actions.map(|item| head(arguments(item)[0])).filter(|name| {
        // The code judges these.
        guards(name, "judge").next().is_some()
    });
    let cases = names.flat_map(|name| {
        let is_shared = matches!(name, "begin-read" | "begin-write");
        every_given(is_shared).filter_map(move |given| Case::new(name, given))
    });
    for case in cases.filter(|case| known.insert(case.change.clone())) {
        for table in tables(case.rows) {
            let rows = |after: Table| after.rows().cloned().collect::<Vec<_>>();
            let (relation, code) = (case.by_relation(&table), case.by_code(&table));
            assert_eq!(relation.map(rows), code.map(rows), "{:?} of {table:?}", case.change);
            compared[usize::from(case.rows.len() > 1)] += 1;
        }
    }
    let [of_one_row, of_several] = compared;
    assert!(of_one_row > 45_000 && of_several > 20_000, "only {compared:?} compared");
}

/// Tells what is done after a look at a row, of all rows that are vacant at the look or nearly so.
/// Asserts that it keeps the guard of the contract, and returns how often it is done.
fn begun(name: &str, guard: &str, at: &str, begins: impl Fn(Option<&Row>) -> bool) -> usize {
    let leases = [None, Some(TERM), Some(TERM * 2)];
    let ends = iproduct!(
        [0, 89, 90, 91, 94, 95, 96],
        leases,
        [ours(), Writer::nobody(), Writer::successor("b")]
    );
    let rows = ends.map(|(heartbeat, lease, writer)| Row { lease, ..row(heartbeat, 50, writer) });
    let rows = std::iter::once(None).chain(rows.map(Some));
    let begun: Vec<_> = rows.filter(|row| begins(row.as_ref())).collect();
    for seen in &begun {
        let mut state = State::default();
        for (look, at) in [("at_gate", GATE), ("at_write_lock", WRITE_LOCK)] {
            state.set(look, look);
            state.look(look, at, None, READ_AT.0);
        }
        state.look("look", at, seen.as_ref().map(cells_of), READ_AT.0);
        let of = READERS[0];
        let own = match at {
            GATE => "at_gate=look",
            WRITE_LOCK => "at_write_lock=look",
            _ => "glance=look",
        };
        let rows = format!("gate={GATE} write_lock={WRITE_LOCK}");
        state.set_all(&format!("{own} {rows} lease={LEASE} of={of}"));
        state.add("Row", at);
        state.set(format!("reads {of}"), true);
        let mut contract = guards(name, "contract");
        let [_, holds] = contract.find(|[known, _]| head(known) == guard).expect("a guard");
        assert!(state.holds(holds, &[("w", "w"), ("t", "t")]), "{name}/{guard}: {seen:?}");
    }
    begun.len()
}

#[test]
fn a_reader_attempts_only_after_a_read_of_a_vacant_gate_and_write_lock() {
    let observation = |row| Observation { row, next: None, read_at: READ_AT };
    for (number, at) in [GATE, WRITE_LOCK].into_iter().enumerate() {
        let begun = begun("send", "nobody-writes", at, |row| {
            let mut reader = Reader::new([GATE.into(), WRITE_LOCK.into()], "a", TERM);
            let mut others = [observation(None), observation(None)];
            others[number].row = row.cloned();
            if reader.observed(observation(None), others).row.is_some() {
                return false;
            }
            let act = Act::Insert { writer: ours() };
            let Some(Change::BeginRead { vacant, .. }) = reader.change(&act, &holder()) else {
                panic!("an insert begins to read");
            };
            assert_eq!(
                vacant[number],
                (at.into(), row.cloned()),
                "it names the row as it was read"
            );
            true
        });
        assert!(begun > 20, "{begun}");
    }
}

#[test]
fn a_writer_begins_only_after_a_poll_of_vacant_readers() {
    let gate = (GATE.to_string(), TermId { token: Timestamp(60), writer: ours() });
    let begun = begun("begin-write", "readers-vacant", READERS[0], |seen| {
        let readers: Vec<_> =
            seen.map(|row| (READERS[0].into(), row.clone())).into_iter().collect();
        let mut write_lock = WriteLock::new(gate.clone(), "a", TERM);
        let own = Observation { row: None, next: None, read_at: READ_AT };
        if write_lock.observed(own, readers.clone()).row.is_some() {
            return false;
        }
        let begin = Act::Insert { writer: ours() };
        let change = write_lock.change(&begin, &holder());
        let begin = Box::new(begin.change(&holder()).expect("a change"));
        assert_eq!(change, Some(Change::BeginWrite { gate: gate.clone(), readers, begin }));
        true
    });
    assert!(begun > 10, "{begun}");
}
