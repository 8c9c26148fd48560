//! No statement makes the parser panic, and what it refuses, it refuses with words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindle_emulator_fuzz::sql::parse_statement;

fuzz_target!(|text: &str| {
    if let Err(error) = parse_statement(text) {
        assert!(!error.in_text(text).message().is_empty());
    }
});
