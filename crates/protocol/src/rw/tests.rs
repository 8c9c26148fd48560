use std::time::Duration;

use super::{Reader, WriteLock, is_left_to_readers};
use crate::line::{Place, Standing};
use crate::{
    Act, Answer, Change, Event, Holder, Instance, Moment, Nonce, Observation, Row, StoredRow,
    Succession, TermId, Timestamp, Timing, WriteKind, Writer,
};

const LEASE: Duration = Duration::from_nanos(100);
const GATE: &str = "rw";
const WRITE_LOCK: &str = "rw/write";

fn writer(instance: u64) -> Writer {
    Writer::term("w", Nonce { instance, attempt: 1 })
}

fn held(at: i64, writer: Writer) -> Row {
    Row { heartbeat: Timestamp(at), token: Timestamp(at), writer, lease: None }
}

fn released(at: i64) -> Row {
    Row { heartbeat: Timestamp::EPOCH, ..held(at, Writer::nobody()) }
}

fn stored(key: &str, row: &Row) -> StoredRow {
    StoredRow {
        heartbeat: Some(row.heartbeat),
        token: Some(row.token),
        writer: row.writer.clone(),
        ..StoredRow::new(key)
    }
}

fn seen(row: Option<Row>, at: i64) -> Observation {
    Observation { row, next: None, read_at: Timestamp(at) }
}

fn holder() -> Holder {
    Holder { lease: LEASE, info: None }
}

fn reader() -> Reader {
    Reader::new([GATE.into(), WRITE_LOCK.into()], "r", LEASE)
}

fn begin_read(gate: Option<Row>, write_lock: Option<Row>) -> Change {
    let vacant = [(GATE.to_string(), gate), (WRITE_LOCK.to_string(), write_lock)];
    Change::BeginRead { vacant: vacant.into(), seen: None, writer: writer(7), holder: holder() }
}

fn insert() -> Act {
    Act::Insert { writer: writer(7) }
}

fn gate_term() -> (String, TermId) {
    (GATE.to_string(), TermId { token: Timestamp(50), writer: writer(1) })
}

#[test]
fn a_reader_is_shown_the_writer_while_somebody_writes_or_waits_to() {
    let taken = || Some(held(1_000, writer(1)));
    for [gate, write_lock] in [[taken(), None], [None, taken()], [Some(released(9)), taken()]] {
        let mut reader = reader();
        let at = |at| [seen(gate.clone(), at), seen(write_lock.clone(), at)];
        let shown = reader.observed(seen(None, 1_099), at(1_099));
        assert_eq!(shown, seen(taken(), 1_099));
        let own = seen(None, 1_100);
        assert_eq!(reader.observed(own.clone(), at(1_100)), own, "the lease is over");
        let change = reader.change(&insert(), &holder());
        assert_eq!(change, Some(begin_read(gate, write_lock)));
    }
}

#[test]
fn a_reader_releases_whoever_ended_without_a_release_and_nobody_else() {
    let (dead, vacant) = (Some(held(1_000, writer(1))), Some(released(900)));
    for (rows, expected) in [
        ([dead.clone(), dead.clone()], &[GATE, WRITE_LOCK][..]),
        ([vacant.clone(), dead.clone()], &[WRITE_LOCK]),
        ([dead, None], &[GATE]),
        ([vacant, None], &[]),
    ] {
        let [gate, write_lock] = rows.clone();
        let found = [(GATE, &rows[0]), (WRITE_LOCK, &rows[1])].into_iter();
        let found: Vec<_> =
            found.filter_map(|(key, row)| Some(stored(key, row.as_ref()?))).collect();
        let writes = begin_read(gate, write_lock).judge("rw/r", &found).unwrap();
        let written: Vec<_> = writes[1..].iter().map(|write| &*write.key).collect();
        assert_eq!(written, expected);
        for (at, row) in found.iter().enumerate() {
            let mut beaten = found.clone();
            beaten[at].heartbeat = Some(Timestamp(1_050));
            let [gate, write_lock] = rows.clone();
            let refused = begin_read(gate, write_lock).judge("rw/r", &beaten);
            assert!(refused.is_err(), "it lives after all: {row:?}");
        }
    }
}

#[test]
fn a_gate_that_was_left_to_readers_is_vacant_for_them_and_not_for_writers() {
    let grace = Duration::from_nanos(25);
    let left = Succession::Successor { id: "/readers".into(), grace };
    let row = Row { writer: left.writer(), lease: left.grace(), ..released(1_000) };
    assert!(is_left_to_readers(&row) && !is_left_to_readers(&released(1_000)));
    let held_row = Row { heartbeat: Timestamp(1_001), ..row.clone() };
    assert!(!is_left_to_readers(&held_row), "a manual edit");
    assert_eq!(row.vacant_from("w", LEASE), Timestamp(1_025));
    let (mut reader, own) = (reader(), seen(None, 1_001));
    let gate = seen(Some(row.clone()), 1_001);
    let others = [gate.clone(), seen(None, 1_001)];
    assert_eq!(reader.observed(own.clone(), others), own);
    let change = reader.change(&insert(), &holder()).unwrap();
    let writes = change.judge("rw/r", &[stored(GATE, &row)]).unwrap();
    assert_eq!(writes.len(), 1, "the gate stays as it is");
    let writes_still = seen(Some(held(990, writer(1))), 1_001);
    assert_eq!(reader.observed(own, [gate, writes_still.clone()]), writes_still);
}

/// At its second poll, in the one place of all readers.
#[test]
fn readers_share_a_place_in_the_line_of_the_gate() {
    let timing = Timing { poll_interval: LEASE / 10, ..Timing::from_lease(LEASE) };
    let mut place = None;
    for nonce in [7, 8] {
        let mut reader = reader();
        let mut instance =
            Instance::new("r", nonce, timing.clone(), Moment::default()).standing(Standing::Reader);
        let mut act = None;
        for (poll, next) in [(1_u32, None), (2, place.clone())] {
            let now = Moment(timing.poll_interval * poll);
            assert_eq!(instance.decide(now, Event::Wake).act, Some(Act::Observe));
            let at = i64::from(poll) + 1_000;
            let gate = Observation { next, ..seen(Some(released(900)), at) };
            let write_lock = seen(Some(held(990, writer(1))), at);
            let shown = reader.observed(seen(None, at), [gate, write_lock]);
            act = instance.decide(now, Event::Answer(Answer::Observed(shown))).act;
        }
        match (nonce, act) {
            (7, Some(act @ Act::Mark { .. })) => {
                let Some(Change::Mark { place: taken }) = reader.change(&act, &holder()) else {
                    panic!("{act:?}");
                };
                assert_eq!(taken.to_string(), "0 1001 /readers");
                place = Some(taken);
            }
            (8, None) => {}
            other => panic!("the first takes the place for all: {other:?}"),
        }
    }
    assert!(place.is_some_and(|place| Place::parse(&place.to_string()) == Some(place)));
}

#[test]
fn a_reader_whose_begin_is_unknown_is_shown_its_own_row_whoever_writes() {
    let mut reader = reader();
    let nobody = || [seen(None, 10), seen(None, 10)];
    reader.observed(seen(None, 10), nobody());
    reader.change(&insert(), &holder());
    let own = seen(Some(held(20, writer(7))), 30);
    let gate = seen(Some(held(25, writer(1))), 30);
    let others = [gate.clone(), seen(None, 30)];
    assert_eq!(reader.observed(own.clone(), others.clone()), own);
    assert_eq!(reader.observed(own, others), gate, "once, and then it waits like others");
}

#[test]
fn a_writer_waits_for_the_last_reader_and_begins_where_none_is() {
    let mut write_lock = WriteLock::new(gate_term(), "w", LEASE);
    let reader = |at| ("rw/r".to_string(), held(at, writer(7)));
    let readers = [("rw/q".to_string(), held(15, writer(8))), reader(20)];
    let own = |at| seen(Some(released(40)), at);
    let shown = write_lock.observed(own(60), readers.to_vec());
    assert_eq!(shown, seen(Some(readers[1].1.clone()), 60), "the last of them to expire");
    assert_eq!(write_lock.observed(own(120), vec![reader(20)]), own(120));

    let begin = Act::Takeover { seen: released(40), writer: writer(2), passes: None };
    let change = write_lock.change(&begin, &holder()).unwrap();
    let gate = stored(GATE, &held(50, writer(1)));
    let (row, vacant) = (stored(WRITE_LOCK, &released(40)), stored("rw/r", &reader(20).1));
    let judge = |rows: &[&StoredRow]| {
        let rows: Vec<_> = rows.iter().map(|row| (*row).clone()).collect();
        change.judge(WRITE_LOCK, &rows)
    };
    let kinds = |rows: &[&StoredRow]| {
        Vec::from_iter(judge(rows).unwrap().into_iter().map(|write| (write.key, write.kind)))
    };
    let deleted = ("rw/r".to_string(), WriteKind::Delete);
    assert_eq!(kinds(&[&gate, &row, &vacant]).last(), Some(&deleted));
    assert!(!kinds(&[&gate, &row]).contains(&deleted), "it has left");
    let beaten = StoredRow { heartbeat: Some(Timestamp(119)), ..vacant.clone() };
    assert!(judge(&[&gate, &row, &beaten]).is_err(), "it lives after all");
    let taken = stored(WRITE_LOCK, &held(60, writer(3)));
    assert!(judge(&[&gate, &taken, &vacant]).is_err(), "another one writes");
    for gate in [released(70), held(70, writer(1)), held(50, writer(3))] {
        let refused = judge(&[&stored(GATE, &gate), &row, &vacant]);
        assert!(refused.is_err(), "the gate is not its own any more: {gate:?}");
    }
    assert!(judge(&[&row, &vacant]).is_err(), "the gate is gone");
}

#[test]
fn a_writer_whose_begin_is_unknown_is_shown_the_write_lock_whoever_reads() {
    let mut write_lock = WriteLock::new(gate_term(), "w", LEASE);
    write_lock.observed(seen(None, 60), Vec::new());
    write_lock.change(&Act::Insert { writer: writer(2) }, &holder());
    let own = seen(Some(held(70, writer(2))), 80);
    let reader = ("rw/r".to_string(), held(75, writer(7)));
    assert_eq!(write_lock.observed(own.clone(), vec![reader.clone()]), own);
    assert_eq!(write_lock.observed(own, vec![reader.clone()]), seen(Some(reader.1), 80));
}
