use super::{Count, CountNamed, CountStep};
use crate::{Cell, Change, Column, Row, StoredRow, Timestamp, WriteKind, Writer};

fn row(writer: &str) -> Row {
    Row {
        heartbeat: Timestamp::EPOCH,
        token: Timestamp(7),
        writer: Writer::from(writer),
        lease: None,
    }
}

#[test]
fn the_row_says_the_count_and_the_move_and_is_read_as_it_was_written() {
    let first = Count::first(60);
    let draining = first.moved(80);
    for (count, text) in [
        (first, "shards 60"),
        (draining, "shards 80 from 60 draining"),
        (draining.drained(), "shards 80 from 60"),
    ] {
        assert_eq!(count.to_writer().as_str(), text);
        assert_eq!(CountNamed::by(Some(&row(text))), CountNamed::Count(count));
    }
}

#[test]
fn a_row_that_says_anything_else_names_no_count() {
    let texts = [
        "",
        "shards",
        "shards 0",
        "shards 10001",
        "shards -1",
        "shards 60 ",
        "shards 60 draining",
        "shards 60 from",
        "shards 60 from 0",
        "shards 60 from 80 paused",
        "shards 60 from 80 since 7",
        "a#000000000000feed-3",
    ];
    for text in texts {
        assert_eq!(CountNamed::by(Some(&row(text))), CountNamed::Unreadable, "{text:?}");
    }
    let held = Row { heartbeat: Timestamp(9), ..row("shards 60") };
    assert_eq!(CountNamed::by(Some(&held)), CountNamed::Unreadable);
    assert_eq!(CountNamed::by(None), CountNamed::Nothing);
}

#[test]
fn a_member_begins_with_the_count_of_the_row_or_the_one_before_and_no_other() {
    let count = Count::first(60);
    assert!(count.admits(60) && !count.admits(80));
    let moved = count.moved(80);
    assert!(moved.admits(80) && moved.admits(60) && !moved.admits(100));
    let again = moved.moved(100);
    assert!(again.admits(100) && again.admits(80) && !again.admits(60));
}

#[test]
fn a_shard_runs_by_the_row_by_which_it_was_taken_unless_that_drains() {
    let runs = |writer: &str, token, taken_by| {
        let row = Row { token: Timestamp(token), ..row(writer) };
        CountNamed::runs(Some(&row), Timestamp(taken_by)).map(|count| count.shards)
    };
    assert_eq!(runs("shards 60", 7, 7), Some(60));
    assert_eq!(runs("shards 80 from 60", 11, 11), Some(80));
    assert_eq!(runs("shards 80 from 60", 11, 7), None, "the number means another shard");
    assert_eq!(runs("shards 80 from 60 draining", 7, 7), None);
    assert_eq!(CountNamed::runs(None, Timestamp(7)), None);
}

#[test]
fn a_member_follows_the_row() {
    let count = Count::first(60);
    let named = CountNamed::Count;
    assert_eq!(named(count).step(60, false), CountStep::Share(count));
    let draining = count.moved(80);
    assert_eq!(named(draining.drained()).step(60, false), CountStep::Share(draining.drained()));
    assert_eq!(named(draining).step(60, false), CountStep::Drain);
    assert_eq!(named(draining).step(60, true), CountStep::Finish(draining.drained()));
    assert_eq!(CountNamed::Nothing.step(60, true), CountStep::Keep(Some(count)));
    assert_eq!(CountNamed::Unreadable.step(60, true), CountStep::Keep(None));
}

#[test]
fn a_count_is_named_on_the_condition_that_the_row_is_as_it_was_seen_and_looks_released() {
    const KEY: &str = "count";
    let stored = |token| StoredRow {
        heartbeat: Some(Timestamp::EPOCH),
        token: Some(Timestamp(token)),
        writer: Writer::from("shards 60"),
        ..StoredRow::new(KEY)
    };
    let count = Count::first(60).moved(80);
    let name = |seen: Option<Row>| Change::NameCount { seen, count };
    for (seen, found, kind) in [
        (None, None, Some(WriteKind::Insert)),
        (None, Some(7), None),
        (Some(7), Some(7), Some(WriteKind::Update)),
        (Some(7), Some(8), None),
        (Some(7), None, None),
    ] {
        let (seen, found) = (seen.map(|token| stored(token).row()), found.map(stored));
        let judged = name(seen).judge(KEY, found.as_slice());
        let Some(kind) = kind else {
            judged.unwrap_err();
            continue;
        };
        let [write] = &judged.unwrap()[..] else { panic!("one write") };
        assert_eq!((&*write.key, write.kind), (KEY, kind));
        let written = [
            (Column::Heartbeat, Cell::Epoch),
            (Column::Token, Cell::CommitTimestamp),
            (Column::Writer, Cell::Text("shards 80 from 60 draining".into())),
            (Column::LeaseMs, Cell::Null),
            (Column::Info, Cell::Null),
        ];
        assert_eq!(write.cells, written);
    }
}
