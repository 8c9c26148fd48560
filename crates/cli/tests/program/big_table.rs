//! A table of ten thousand locks in every state, some with names that nobody expects.

use spindle_emulator::engine::{Mutation, Timestamp};
use spindle_protocol::Writer;

use crate::world::{Cells, World, row};

/// The locks of users; the rows of fleets come on top.
pub const LOCKS: usize = 10_000;

/// Names that a careless program breaks on.
pub fn odd_names() -> Vec<String> {
    let names = [
        "a name with spaces",
        " leading and trailing ",
        "日本語のロック",
        "👩‍👩‍👧 family",
        "e\u{301}le\u{300}ve",
        "עברית",
        "it's \"quoted\" `so`",
        "two\nlines",
        "tab\tand\r\nreturn",
        "\u{1b}[31mred\u{1b}[0m",
        "--all",
        "-",
        "a;rm -rf /",
        "<script>alert(1)</script>",
        "percent%20and%s",
        "back\\slash",
        "zero\u{200b}width",
        "\u{202e}right to left",
    ];
    let longest = "x".repeat(4_096);
    names.into_iter().map(str::to_string).chain([longest]).collect()
}

/// Fills the table: 10,000 locks, and the rows of fleets.
pub async fn fill(world: &World) {
    let now = world.emulator.clock().now();
    let mut rows: Vec<Mutation> = (0..LOCKS - odd_names().len())
        .map(|number| row(&format!("orders/{number:05}"), cells(now, number)))
        .collect();
    let odd = odd_names();
    rows.extend(odd.iter().map(|name| row(name, held(now, "node-1", Some("10.0.0.1")))));
    rows.extend((0..300).map(|number| {
        let key = format!("orders/{number:05}_{:019}", before(now, 100_000).nanos());
        let cells = Cells { heartbeat: None, ..held(now, "node-1", None) };
        row(&key, Cells { lease_ms: None, ..cells })
    }));
    for rows in rows.chunks(1_000) {
        world.apply(rows).await;
    }
}

/// Half of them held, the others in each of the states that a row can be in.
fn cells(now: Timestamp, number: usize) -> Cells {
    let id = format!("node-{}", number % 40);
    let epoch = Some(Timestamp::from_micros(0));
    let released = |writer, lease_ms, info: Option<&str>| Cells {
        heartbeat: epoch,
        token: before(now, 60_000),
        writer,
        lease_ms,
        info: info.map(str::to_string),
    };
    let evicted = |writer| Cells {
        heartbeat: Some(before(now, 1_000)),
        token: now,
        writer,
        lease_ms: Some(600_000),
        info: Some("evicted by ada@ops: a bad deploy".to_string()),
    };
    match number % 20 {
        0..10 => held(now, &id, Some("http://10.0.0.7:8080")),
        10..13 => released(Writer::nobody(), None, None),
        13 => released(Writer::nobody(), None, Some("seized by ada@ops: it hangs")),
        14 => released(Writer::successor("node-7"), Some(600_000), None),
        15 => released(Writer::successor("node-8"), Some(3_600_000), Some("seized by ada@ops")),
        16 | 17 => evicted(Writer::nobody()),
        18 => Cells { heartbeat: Some(before(now, 900_000)), ..held(now, &id, None) },
        _ => Cells { writer: Writer::from("7d9c8f54b8-go"), ..held(now, &id, None) },
    }
}

pub fn held_row(now: Timestamp, name: &str, id: &str, info: Option<&str>) -> Mutation {
    row(name, held(now, id, info))
}

fn held(now: Timestamp, id: &str, info: Option<&str>) -> Cells {
    let (token, info) = (before(now, 120_000), info.map(str::to_string));
    Cells { token, info, ..Cells::term(now, id, 600_000) }
}

fn before(now: Timestamp, milliseconds: i64) -> Timestamp {
    Timestamp::from_micros(now.micros() - milliseconds * 1_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_locks_are_listed_whatever_their_names() {
    let world = World::start().await;
    fill(&world).await;
    let ran = world.run(&["ls"]).await.ends(0);
    assert_eq!(ran.out.lines().count(), LOCKS + 1);
    let wide = ran.out.lines().filter(|line| line.chars().count() > 200).count();
    assert_eq!(wide, 1, "the longest name widens no line but its own");
    let unseen = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!ran.out.contains(unseen), "no name steers the terminal");

    let json = world.run(&["ls", "-o", "jsonl"]).await;
    let names: Vec<String> = json
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["name"].as_str().unwrap().to_string())
        .collect();
    for name in odd_names() {
        assert!(names.contains(&name), "{name}");
        let shown = world.run(&["show", "-o", "json", "--", &name]).await.ends(0);
        let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!((&shown["name"], &shown["holder"]), (&name.into(), &"node-1".into()));
    }

    world.run(&["doctor"]).await.ends(1).says("others hold `orders/00019`");
}
