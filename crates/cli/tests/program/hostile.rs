//! Names, ids and infos of strangers: no command lets them steer the terminal.

use crate::world::{Ran, World};

/// A title, a bell, a control sequence in eight bits, the reverse order, an invisible character.
const HOSTILE: &str = "a\x1b]0;t\x07\u{9b}2J\u{202e}\u{2066}\u{200b}\x7f";

/// The characters of a stream that a terminal must not see, except for the program's own colours.
fn unseen(text: &str) -> Vec<char> {
    let colours = ["\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"];
    let text = colours.iter().fold(text.to_string(), |text, colour| text.replace(colour, ""));
    let steers = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(steers).collect()
}

async fn judged(world: &World, arguments: &[&str]) -> Ran {
    let ran = world.run(arguments).await;
    assert_eq!((unseen(&ran.out), unseen(&ran.err)), (vec![], vec![]), "{arguments:?} {ran:?}");
    ran
}

#[tokio::test]
async fn no_command_lets_a_name_or_an_id_steer_the_terminal() {
    let world = World::start().await;
    world.write(&[(HOSTILE, Some(HOSTILE)), ("free", None)]).await;
    let looks: [&[&str]; 9] = [
        &["ls"],
        &["ls", "--all"],
        &["show", HOSTILE],
        &["show", "free"],
        &["who", HOSTILE],
        &["history", HOSTILE],
        &["members", HOSTILE],
        &["permits", HOSTILE],
        &["doctor"],
    ];
    for look in looks {
        for form in ["table", "json", "jsonl"] {
            for colour in ["always", "never"] {
                judged(&world, &[look, &["-o", form, "--color", colour]].concat()).await;
            }
        }
    }
    let json = judged(&world, &["who", HOSTILE, "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<String>(&json.out).unwrap(), HOSTILE);

    let acts: [&[&str]; 9] = [
        &["rm", HOSTILE],
        &["rm", "--yes", HOSTILE],
        &["resign-to", "--yes", HOSTILE, HOSTILE],
        &["evict", "--yes", HOSTILE, "--reason", HOSTILE],
        &["seize", "--yes", HOSTILE, "--by", HOSTILE],
        &["run", "--try", HOSTILE, "--", "true"],
        &["run", "--every", "1s", "--skip-if-running", HOSTILE, "--", "true"],
        &["run", "free", "--", HOSTILE],
        &["show", "free", HOSTILE],
    ];
    for act in acts {
        let ran = judged(&world, act).await;
        assert_ne!((ran.out, ran.err), Default::default(), "{act:?} says what it did");
    }
    judged(&world, &["ls", "--table", HOSTILE]).await;
    judged(&world, &["ls", "--database", HOSTILE]).await;
}
