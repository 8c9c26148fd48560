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
    let draining = first.moved(80, true);
    for (count, text) in [
        (first, "shards 60"),
        (first.moved(80, false), "shards 80 from 60"),
        (draining, "shards 80 from 60 draining"),
        (draining.drained(), "shards 80 from 60"),
    ] {
        assert_eq!(count.to_writer().as_str(), text);
        let read = Count { numbers_since: Some(Timestamp(7)), ..count };
        assert_eq!(CountNamed::by(Some(&row(text))), CountNamed::Count(read));
    }
}

#[test]
fn a_number_means_the_same_until_a_move_drains() {
    let read = |text: &str| match CountNamed::by(Some(&row(text))) {
        CountNamed::Count(count) => count,
        named => panic!("{text}: {named:?}"),
    };
    let kept = read("shards 60").moved(80, false).to_writer();
    assert_eq!(kept.as_str(), "shards 80 from 60 since 7");
    let again = read("shards 80 from 60 since 3").moved(70, false).to_writer();
    assert_eq!(again.as_str(), "shards 70 from 80 since 3");
    let drains = read(again.as_str()).moved(90, true);
    assert_eq!(drains.to_writer().as_str(), "shards 90 from 70 draining");
    assert_eq!(read("shards 90 from 70 draining").drained().numbers_since, None);
    assert_eq!(read("shards 90 from 70").numbers_since, Some(Timestamp(7)));
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
        "shards 60 from 80 since",
        "shards 60 from 80 since now",
        "shards 60 from 80 since 7 draining",
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
    let moved = count.moved(80, false);
    assert!(moved.admits(80) && moved.admits(60) && !moved.admits(100));
    let again = moved.moved(100, false);
    assert!(again.admits(100) && again.admits(80) && !again.admits(60));
}

#[test]
fn a_shard_that_was_taken_runs_unless_its_number_is_gone_or_has_another_meaning() {
    let at = |writer: &str, token| {
        let named = CountNamed::by(Some(&Row { token: Timestamp(token), ..row(writer) }));
        move |shard, since| match named {
            CountNamed::Count(count) => count.runs(shard, Timestamp(since)),
            named => panic!("{named:?}"),
        }
    };
    let first = at("shards 60", 7);
    assert!(first(59, 7) && !first(60, 7) && !first(0, 6));
    let kept = at("shards 80 from 60 since 7", 9);
    assert!(kept(59, 7) && kept(79, 7) && !kept(0, 9));
    let fewer = at("shards 50 from 80 since 7", 9);
    assert!(fewer(49, 7) && !fewer(50, 7));
    let draining = at("shards 80 from 60 draining", 9);
    assert!(!draining(0, 7) && !draining(0, 9));
    let drained = at("shards 80 from 60", 11);
    assert!(drained(79, 11) && !drained(0, 7) && !drained(0, 9));
}

#[test]
fn a_member_follows_the_row() {
    let count = Count::first(60);
    let named = CountNamed::Count;
    assert_eq!(named(count).step(60, false), CountStep::Share(count));
    let (kept, draining) = (count.moved(80, false), count.moved(80, true));
    assert_eq!(named(kept).step(60, false), CountStep::Share(kept));
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
    let count = Count::first(60).moved(80, true);
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
