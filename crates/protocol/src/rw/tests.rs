use std::time::Duration;

use super::{Reader, Stopped, WriterDecision, Writing, is_left_to_readers, left_to_readers};
use crate::{
    Act, Answer, Change, Holder, Nonce, Observation, Rejection, Row, Seen, StoredRow, Succession,
    TermId, Timestamp, WriteKind, Writer,
};

const LEASE: Duration = Duration::from_nanos(100);
const WRITER_ROW: &str = "rw";

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

fn begin_read(vacant: Option<Row>) -> Change {
    let (writer_row, writer) = (WRITER_ROW.to_string(), writer(7));
    Change::BeginRead { writer_row, vacant, seen: None, writer, holder: holder() }
}

fn first() -> TermId {
    TermId { token: Timestamp(50), writer: writer(1) }
}

#[test]
fn a_reader_is_shown_the_writer_while_somebody_writes_or_waits_to() {
    let mut reader = Reader::new(WRITER_ROW, "r", LEASE);
    let writer_row = seen(Some(held(1_000, writer(1))), 1_099);
    assert_eq!(reader.observed(seen(None, 1_099), writer_row.clone()), writer_row);
    let vacant = held(1_000, writer(1));
    let own = seen(None, 1_100);
    assert_eq!(reader.observed(own.clone(), seen(Some(vacant.clone()), 1_100)), own);
    let act = Act::Insert { writer: writer(7) };
    assert_eq!(reader.change(&act, &holder()), Some(begin_read(Some(vacant))));
}

#[test]
fn a_row_that_was_left_to_readers_is_vacant_for_them_and_not_for_writers() {
    let left = left_to_readers(Duration::from_nanos(25));
    let row = Row { writer: left.writer(), lease: left.grace(), ..released(1_000) };
    assert!(is_left_to_readers(&row) && !is_left_to_readers(&released(1_000)));
    let held = Row { heartbeat: Timestamp(1_001), ..row.clone() };
    assert!(!is_left_to_readers(&held), "a manual edit");
    assert_eq!(row.vacant_from("w", LEASE), Timestamp(1_025));
    let (mut reader, own) = (Reader::new(WRITER_ROW, "r", LEASE), seen(None, 1_001));
    assert_eq!(reader.observed(own.clone(), seen(Some(row.clone()), 1_001)), own);
    let change = reader.change(&Act::Insert { writer: writer(7) }, &holder()).unwrap();
    let writes = change.judge("rw/r", &[stored(WRITER_ROW, &row)]).unwrap();
    assert_eq!(writes.len(), 1, "the writers' row stays as it is");
}

#[test]
fn a_reader_whose_begin_is_unknown_is_shown_its_own_row_whoever_writes() {
    let mut reader = Reader::new(WRITER_ROW, "r", LEASE);
    reader.observed(seen(None, 10), seen(None, 10));
    reader.change(&Act::Insert { writer: writer(7) }, &holder());
    let (own, writer_row) =
        (seen(Some(held(20, writer(7))), 30), seen(Some(held(25, writer(1))), 30));
    assert_eq!(reader.observed(own.clone(), writer_row.clone()), own);
    assert_eq!(
        reader.observed(own, writer_row.clone()),
        writer_row,
        "once, and then it waits like others"
    );
}

#[test]
fn a_writer_waits_for_the_last_reader_and_begins_where_none_is() {
    let (stopped, writer_row) = (Stopped::new(first(), LEASE), held(50, writer(1)));
    let readers = [("rw/r".to_string(), held(20, writer(7)))];
    let decision =
        |read_at| stopped.sees(Some(&writer_row), &readers, Timestamp(read_at), &holder());
    assert_eq!(decision(60), WriterDecision::Wait(Duration::from_nanos(60)));
    let WriterDecision::Begin(change) = decision(120) else { panic!("nobody reads") };
    let (own, vacant) = (stored(WRITER_ROW, &writer_row), stored("rw/r", &readers[0].1));
    let writes = change.judge(WRITER_ROW, &[own.clone(), vacant.clone()]).unwrap();
    assert_eq!((writes.len(), writes[1].kind), (2, WriteKind::Delete));
    assert_eq!(
        change.judge(WRITER_ROW, std::slice::from_ref(&own)).unwrap().len(),
        1,
        "it has left"
    );
    let beaten = StoredRow { heartbeat: Some(Timestamp(119)), ..vacant };
    assert!(change.judge(WRITER_ROW, &[own, beaten]).is_err(), "it lives after all");
}

#[test]
fn a_writer_whose_first_term_is_over_begins_nothing() {
    let stopped = Stopped::new(first(), LEASE);
    for writer_row in
        [None, Some(released(60)), Some(held(60, writer(2))), Some(held(60, writer(1)))]
    {
        let decision = stopped.sees(writer_row.as_ref(), &[], Timestamp(70), &holder());
        assert_eq!(decision, WriterDecision::Lost, "{writer_row:?}");
    }
    let change = Change::BeginWrite { first: first(), readers: Vec::new(), holder: holder() };
    assert!(change.judge(WRITER_ROW, &[stored(WRITER_ROW, &held(60, writer(2)))]).is_err());
}

#[test]
fn a_second_commit_of_unknown_outcome_is_found_by_the_next_attempt() {
    let (stopped, second) = (Stopped::new(first(), LEASE), writer(1).second().unwrap());
    let term = TermId { token: Timestamp(70), writer: second.clone() };
    let writer_row = held(70, second.clone());
    let decision = stopped.sees(Some(&writer_row), &[], Timestamp(80), &holder());
    assert_eq!(decision, WriterDecision::Began(term.clone()));
    let refused = |token| {
        let seen = Seen { token: Timestamp(token), writer: second.clone() };
        stopped.answered(&Answer::Rejected(Rejection::Changed(Some(seen))))
    };
    assert_eq!(refused(70), Some(term));
    assert_eq!(refused(40), None, "a token that was set back is nobody's");
    assert_eq!(stopped.answered(&Answer::Unknown), None);
    assert_eq!(second.second(), None);
}

#[test]
fn a_writers_heartbeats_and_release_are_good_for_either_term_until_it_knows() {
    let mut writing = Writing::default();
    let heartbeat = Act::Heartbeat { term: first(), looks: false };
    let release = Act::Release { term: first(), next: Succession::Anyone };
    let second = TermId { token: Timestamp(70), writer: writer(1).second().unwrap() };
    let rows = [held(50, writer(1)), held(70, second.writer.clone())];
    for act in [&heartbeat, &release] {
        let change = writing.change(act, &holder()).unwrap();
        for row in &rows {
            assert!(
                change.judge(WRITER_ROW, &[stored(WRITER_ROW, row)]).is_ok(),
                "{act:?} {row:?}"
            );
        }
        let old = held(40, second.writer.clone());
        assert!(change.judge(WRITER_ROW, &[stored(WRITER_ROW, &old)]).is_err(), "{act:?}");
    }
    writing.begins(first(), second);
    for act in [&heartbeat, &release] {
        let change = writing.change(act, &holder()).unwrap();
        assert!(change.judge(WRITER_ROW, &[stored(WRITER_ROW, &rows[0])]).is_err(), "{act:?}");
        assert!(change.judge(WRITER_ROW, &[stored(WRITER_ROW, &rows[1])]).is_ok(), "{act:?}");
    }
}
