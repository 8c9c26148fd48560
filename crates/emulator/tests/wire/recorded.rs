//! Calls with the recorded answers of Google's emulator.

use std::fmt::Write as _;

use spindle_emulator::Emulator;

#[path = "../differential/answer.rs"]
#[allow(dead_code, reason = "the differential test uses the rest")]
mod answer;
#[path = "../differential/side.rs"]
mod side;
#[path = "../differential/tables.rs"]
#[allow(dead_code, reason = "the differential test uses the rest")]
mod tables;
#[path = "../differential/wire.rs"]
mod wire;

/// A case is in lines: a call, the answer of Google's emulator, and the answer here where it is another
/// one. The differential test writes them and asks both servers the same.
const CALLS: &str = include_str!("../differential/calls.txt");

#[tokio::test]
async fn a_call_is_answered_as_googles_emulator_answers_it() {
    let emulator = Emulator::start().await.unwrap();
    let mut side = side::Side::connect(emulator.endpoint()).await.unwrap();
    let mut wrong = String::new();
    for (number, case) in CALLS.split("\n\n").enumerate() {
        side.enter_new(&format!("case{number}")).await.unwrap();
        let mut lines = case.lines().filter(|line| !line.starts_with("--")).peekable();
        while let Some(call) = lines.next() {
            let mut expected = lines.next().unwrap().strip_prefix("= ").unwrap();
            if let Some(ours) = lines.next_if(|line| line.starts_with("! ")) {
                expected = &ours[2..];
            }
            // A statement that leaves nothing behind is asked twice: its plan for any values answers too.
            for _ in 0..1 + usize::from(call.starts_with("sql ")) {
                let found = side.answer(call).await.text(answer::in_order(call));
                if found != expected {
                    writeln!(wrong, "{call}\n  answers {found}\n  and not {expected}").unwrap();
                }
            }
        }
        side.leave(true).await.unwrap();
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
