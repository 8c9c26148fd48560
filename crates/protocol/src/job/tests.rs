use std::time::Duration;

use super::*;
use crate::{
    Act, Cell, Change, Column, Holder, Nonce, Observation, Rejection, Row, StoredRow, Succession,
    TermId, Timestamp, Write, WriteKind, Writer,
};

const LOCK: &str = "report";
const KEY: &str = "spindle:job:report";
const LEASE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(5);
const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
/// A full hour.
const NOON: i64 = 1_795_780_800 * SECOND;

fn term(n: u64) -> Writer {
    Writer::term("a", Nonce { instance: n, attempt: 1 })
}

fn record(slot: i64, state: SlotState, starts: u32, by: u64) -> Record {
    let slot = Timestamp(slot);
    Record { slot, state, starts, attempts: 3, began: None, ended: None, by: term(by) }
}

/// The job's row, as it was written at `at`.
fn job_row(record: &Record, at: i64, pause: Option<Duration>) -> StoredRow {
    let lease_ms = pause.map(|pause| i64::try_from(pause.as_millis()).unwrap());
    let (heartbeat, token) = (Some(Timestamp::EPOCH), Some(Timestamp(at)));
    let writer = record.to_writer();
    StoredRow { heartbeat, token, writer, lease_ms, ..StoredRow::new(KEY) }
}

/// The lock's row, with a term that was renewed at `heartbeat`; released at the epoch.
fn lock_row(writer: Writer, token: i64, heartbeat: i64) -> StoredRow {
    let (heartbeat, token) = (Some(Timestamp(heartbeat)), Some(Timestamp(token)));
    StoredRow { heartbeat, token, writer, lease_ms: Some(10_000), ..StoredRow::new(LOCK) }
}

fn runner(slot: Slot) -> Runner {
    let ahead = Duration::from_secs(600);
    let asked = Asked { slot, attempts: 3, pause: PAUSE, ahead };
    Runner::new(KEY.into(), "a", LEASE, asked)
}

fn at(slot: i64) -> Runner {
    runner(Slot::At(Timestamp(slot)))
}

fn seen(row: Option<&StoredRow>, read_at: i64) -> Observation {
    let read_at = Timestamp(read_at);
    Observation { row: row.map(StoredRow::row), next: None, read_at }
}

/// Returns the step that follows from these rows at that time, and true if the instance may take the lock.
fn follows(
    runner: &mut Runner,
    lock: Option<&StoredRow>,
    job: Option<&StoredRow>,
    now: i64,
) -> (Step, bool) {
    let shown = runner.observed(seen(lock, now), seen(job, now));
    let is_vacant = |row: &Row| row.vacant_from("a", LEASE) <= Timestamp(now);
    (runner.step(), shown.row.as_ref().is_none_or(is_vacant))
}

#[test]
fn a_record_is_written_readably_and_read_again() {
    let text = "job1 2026-11-27T12:00:00Z open 2/3 - - a#0000000000000007-1";
    let open = record(NOON, SlotState::Open, 2, 7);
    assert_eq!(open.to_string(), text);
    assert_eq!(Record::parse(text), Some(open.clone()));
    let (began, ended) = (Some(Timestamp(NOON + 1)), Some(Timestamp(NOON + SECOND)));
    let by = Writer::from("node of two words#0000000000000007-1");
    let done = Record { state: SlotState::Done, began, ended, by, ..open };
    assert_eq!(Record::parse(&done.to_string()), Some(done));
    for text in [
        "",
        "shards 6",
        "job2 2026-11-27T12:00:00Z open 2/3 - - a",
        "job1 2026-11-27T12:00:00Z closed 2/3 - - a",
        "job1 2026-11-27T12:00:00Z open 2 - - a",
        "job1 2026-11-27T12:00:00Z open 2/3 - a",
        "job1 today open 2/3 - - a",
    ] {
        assert_eq!(Record::parse(text), None, "{text}");
    }
}

#[test]
fn the_slot_of_a_period_is_the_nearest_one_and_no_clock_but_spanners_names_it() {
    let hour = Duration::from_secs(3_600);
    for (off, slot) in [(0, 0), (-1, 0), (1, 0), (-HOUR / 2, 0), (HOUR / 2 - 1, 0), (HOUR / 2, 1)] {
        assert_eq!(nearest(hour, Timestamp(NOON + off)), Timestamp(NOON + slot * HOUR), "{off}");
    }
    // A timer that fires a millisecond early waits for its own slot, and skips none.
    let mut early = runner(Slot::Every(hour));
    let (step, takes) = follows(&mut early, None, None, NOON - SECOND / 1_000);
    assert_eq!((step, takes), (Step::Wait(Duration::from_millis(1)), false));
    assert_eq!(follows(&mut early, None, None, NOON), (Step::Start, true));
    assert_eq!(early.slot(), Some(Timestamp(NOON)));
}

#[test]
fn a_slot_ahead_of_spanners_clock_waits_or_is_refused() {
    let soon = NOON + 600 * SECOND;
    assert_eq!(follows(&mut at(soon), None, None, NOON), (Step::Wait(LEASE * 60), false));
    let year = NOON + 365 * 24 * HOUR;
    let ahead = Duration::from_secs(365 * 24 * 3_600);
    assert_eq!(follows(&mut at(year), None, None, NOON), (Step::Ahead(ahead), false));
}

#[test]
fn each_record_says_what_follows_for_a_slot() {
    let free = lock_row(Writer::nobody(), NOON, 0);
    let held = lock_row(term(7), NOON, NOON + SECOND);
    let now = NOON + 8 * SECOND;
    let open = |starts| job_row(&record(NOON, SlotState::Open, starts, 7), NOON, Some(PAUSE));
    let done = job_row(&record(NOON, SlotState::Done, 1, 7), NOON, None);
    let failed = job_row(&record(NOON, SlotState::Failed, 3, 7), NOON, None);
    let before = job_row(&record(NOON - HOUR, SlotState::Open, 1, 7), NOON, Some(PAUSE));
    let after = job_row(&record(NOON + HOUR, SlotState::Open, 1, 7), NOON, Some(PAUSE));
    for (lock, job, step) in [
        (&free, None, Step::Start),
        (&free, Some(&open(1)), Step::Start),
        (&held, Some(&open(1)), Step::Runs),
        (&held, Some(&open(3)), Step::Runs),
        (&free, Some(&open(3)), Step::Lost),
        (&free, Some(&done), Step::Done),
        (&held, Some(&done), Step::Done),
        (&free, Some(&failed), Step::Failed),
        (&free, Some(&before), Step::Start),
        (&held, Some(&before), Step::Runs),
        (&free, Some(&after), Step::Superseded),
    ] {
        let (followed, takes) = follows(&mut at(NOON), Some(lock), job, now);
        assert_eq!((followed, takes), (step, step == Step::Start), "{lock:?} {job:?}");
    }
    let early = follows(&mut at(NOON), Some(&free), Some(&open(1)), NOON + 2 * SECOND);
    assert_eq!(early, (Step::Wait(Duration::from_secs(3)), false), "the pause is not over");
    let other = StoredRow { writer: Writer::from("job2 of a later version"), ..open(1) };
    assert_eq!(follows(&mut at(NOON), Some(&free), Some(&other), now), (Step::Unreadable, false));
}

/// The writes of the change to the job's row.
fn of_the_job(change: &Change, found: &[StoredRow]) -> Result<Option<Write>, Rejection> {
    let writes = change.judge(LOCK, found)?;
    assert!(matches!(change, Change::FailSlot { .. }) || writes.iter().any(|it| it.key == LOCK));
    Ok(writes.into_iter().find(|write| write.key == KEY))
}

fn cell(write: &Write, column: Column) -> Option<&Cell> {
    write.cells.iter().find(|(it, _)| *it == column).map(|(_, cell)| cell)
}

fn written(write: Option<Write>) -> (Record, Option<Cell>) {
    let write = write.expect("the record is written");
    assert_eq!(cell(&write, Column::Token), Some(&Cell::CommitTimestamp));
    let Some(Cell::Text(text)) = cell(&write, Column::Writer) else { panic!("{write:?}") };
    (Record::parse(text).expect("it is read again"), cell(&write, Column::LeaseMs).cloned())
}

/// The begin of a caller that has seen these rows at that time.
fn begin(slot: i64, found: &[StoredRow], now: i64) -> Change {
    let row = |key: &str| found.iter().find(|row| row.key == key);
    let mut runner = at(slot);
    assert_eq!(follows(&mut runner, row(LOCK), row(KEY), now), (Step::Start, true));
    let writer = term(9);
    let act = match row(LOCK) {
        None => Act::Insert { writer },
        Some(seen) => Act::Takeover { seen: seen.row(), writer, passes: None },
    };
    runner.change(&act, &Holder { lease: LEASE, info: None }).expect("it may begin")
}

#[test]
fn a_begin_counts_its_start_in_its_own_commit_and_only_if_the_record_is_as_seen() {
    let first = begin(NOON, &[], NOON);
    let write = of_the_job(&first, &[]).unwrap();
    assert_eq!(write.as_ref().map(|it| it.kind), Some(WriteKind::Insert));
    let (open, pause) = written(write);
    assert_eq!(open, record(NOON, SlotState::Open, 1, 9));
    assert_eq!(pause, Some(Cell::milliseconds(PAUSE)));

    let free = lock_row(Writer::nobody(), NOON, 0);
    let once = job_row(&record(NOON, SlotState::Open, 1, 7), NOON, Some(PAUSE));
    let again = begin(NOON, &[free.clone(), once.clone()], NOON + HOUR);
    let (open, pause) = written(of_the_job(&again, &[free.clone(), once.clone()]).unwrap());
    assert_eq!(open, record(NOON, SlotState::Open, 2, 9));
    assert_eq!(pause, Some(Cell::milliseconds(PAUSE * 2)), "it doubles");

    // Another has counted a start, or removed the record, or taken the lock.
    let counted = job_row(&record(NOON, SlotState::Open, 2, 8), NOON + 1, Some(PAUSE));
    let taken = lock_row(term(8), NOON + 1, NOON + 1);
    for found in
        [vec![free.clone(), counted], vec![free.clone()], vec![taken, once.clone()], vec![once]]
    {
        assert!(matches!(again.judge(LOCK, &found), Err(Rejection::Changed(_))), "{found:?}");
    }
}

#[test]
fn the_slots_before_stay_in_the_row_for_people() {
    let free = lock_row(Writer::nobody(), NOON, 0);
    let mut row = job_row(&record(NOON, SlotState::Done, 1, 7), NOON + 3, None);
    for hour in 1..15 {
        let now = NOON + hour * HOUR;
        let begin = begin(now, &[free.clone(), row.clone()], now);
        let write = of_the_job(&begin, &[free.clone(), row.clone()]).unwrap().unwrap();
        let Some(Cell::Text(past)) = cell(&write, Column::Info) else { panic!("{write:?}") };
        let (open, _) = written(Some(write.clone()));
        row = StoredRow { info: Some(past.clone()), ..job_row(&open, now + 3, None) };
    }
    let past = Record::past(row.info.as_deref());
    let slots: Vec<i64> = past.iter().map(|past| (past.slot.0 - NOON) / HOUR).collect();
    assert_eq!(slots, [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
    assert_eq!(past[0].began, Some(Timestamp(NOON + 13 * HOUR + 3)));
    assert!(row.info.unwrap().len() < 4_096);
}

/// The end of the term 9 of this token, by a release or under a fence.
fn end(token: i64, ending: Ending, fenced: bool) -> Change {
    let term = TermId { token: Timestamp(token), writer: term(9) };
    let term = if fenced {
        Change::Fence { term }
    } else {
        Change::Release { term, next: Succession::Anyone }
    };
    Change::Job { term: Box::new(term), record: RecordChange::End { key: KEY.into(), ending } }
}

#[test]
fn a_release_records_the_end_in_its_own_commit() {
    let held = lock_row(term(9), NOON, NOON);
    let open = |starts| job_row(&record(NOON, SlotState::Open, starts, 9), NOON, Some(PAUSE));
    for (starts, ending, state, pause) in [
        (1, Ending::Done, SlotState::Done, Cell::Null),
        (1, Ending::Failed, SlotState::Open, Cell::Milliseconds(5_000)),
        (2, Ending::Failed, SlotState::Open, Cell::Milliseconds(5_000)),
        (3, Ending::Failed, SlotState::Failed, Cell::Null),
        (3, Ending::Done, SlotState::Done, Cell::Null),
    ] {
        let write = of_the_job(&end(NOON, ending, false), &[held.clone(), open(starts)]).unwrap();
        let began = Some(Timestamp(NOON));
        let expected = (Record { began, ..record(NOON, state, starts, 9) }, Some(pause));
        assert_eq!(written(write), expected, "{starts} {ending:?}");
    }
    // The term is over: neither row is written.
    for (row, found) in [
        ("another's", lock_row(term(8), NOON, NOON)),
        ("evicted", lock_row(Writer::nobody(), NOON + 1, NOON)),
    ] {
        let late = end(NOON, Ending::Done, false).judge(LOCK, &[found, open(1)]);
        assert!(matches!(late, Err(Rejection::Changed(_))), "{row}: {late:?}");
    }
}

#[test]
fn a_release_leaves_a_record_alone_that_is_not_its_own_and_a_fenced_end_refuses() {
    let held = lock_row(term(9), NOON, NOON);
    let of = |state, by| job_row(&record(NOON, state, 1, by), NOON, None);
    let done = of(SlotState::Done, 9);
    for job in [None, Some(of(SlotState::Open, 8)), Some(done)] {
        let found: Vec<StoredRow> = std::iter::once(held.clone()).chain(job).collect();
        for ending in [Ending::Done, Ending::Failed] {
            assert_eq!(of_the_job(&end(NOON, ending, false), &found), Ok(None), "{found:?}");
        }
        let twice = end(NOON, Ending::Done, true).judge(LOCK, &found);
        assert!(matches!(twice, Err(Rejection::Changed(_))), "{found:?}: {twice:?}");
    }
    // Given up by others, it ended well after all.
    let found = [held, of(SlotState::Failed, 9)];
    let writes = end(NOON, Ending::Done, true).judge(LOCK, &found).unwrap();
    let [write] = &*writes else { panic!("a fence writes nothing of its own: {writes:?}") };
    assert_eq!(written(Some(write.clone())).0.state, SlotState::Done);
}

#[test]
fn a_slot_whose_last_start_was_lost_is_recorded_as_failed_if_it_is_as_seen() {
    let lost = job_row(&record(NOON, SlotState::Open, 3, 7), NOON, Some(PAUSE));
    let free = lock_row(Writer::nobody(), NOON, 0);
    let gives_up = |job: &StoredRow| {
        let lock = (LOCK.to_string(), Some(free.row()));
        Change::FailSlot { seen: job.row(), lock }
    };
    let give_up = gives_up(&lost);
    let writes = give_up.judge(KEY, &[lost.clone(), free.clone()]).unwrap();
    let (failed, _) = written(writes.into_iter().next());
    let began = Some(Timestamp(NOON));
    assert_eq!(failed, Record { began, ..record(NOON, SlotState::Failed, 3, 7) });
    let started = job_row(&record(NOON, SlotState::Open, 3, 8), NOON + 1, Some(PAUSE));
    assert!(give_up.judge(KEY, &[started, free.clone()]).is_err());
    let runs = StoredRow { token: Some(Timestamp(NOON)), writer: term(9), ..free.clone() };
    assert!(give_up.judge(KEY, &[lost, runs]).is_err(), "the last start, seen before its begin");
    assert!(give_up.judge(KEY, &[]).is_err());
    let done = job_row(&record(NOON, SlotState::Done, 3, 7), NOON, None);
    let needless = gives_up(&done).judge(KEY, &[done, free.clone()]);
    assert_eq!(needless, Err(Rejection::Needless));
}

#[test]
fn an_attempt_of_ones_own_that_was_heard_of_late_is_no_run_elsewhere_and_begins_no_second() {
    let mut runner = at(NOON);
    assert_eq!(follows(&mut runner, None, None, NOON), (Step::Start, true));
    let holder = Holder { lease: LEASE, info: None };
    let begins = runner.change(&Act::Insert { writer: term(9) }, &holder);
    assert!(begins.is_some());
    let held = lock_row(term(9), NOON + 1, NOON + 1);
    let counted = job_row(&record(NOON, SlotState::Open, 1, 9), NOON + 1, Some(PAUSE));
    let (step, _) = follows(&mut runner, Some(&held), Some(&counted), NOON + SECOND);
    assert_eq!(step, Step::Ours);
    let act = Act::Takeover { seen: held.row(), writer: term(9), passes: None };
    assert_eq!(runner.change(&act, &holder), None);
    // Once its lease is over it is a start that was lost, as any.
    let (step, takes) = follows(&mut runner, Some(&held), Some(&counted), NOON + 20 * SECOND);
    assert_eq!((step, takes), (Step::Start, true));
    let again = Act::Takeover { seen: held.row(), writer: term(10), passes: None };
    assert!(runner.change(&again, &holder).is_some());
    assert_eq!(runner.start(), 2);
}
