//! No statement makes the parser panic, and what it understands, it understands again when it is
//! written down in full.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindle_emulator_fuzz::print::print;
use spindle_emulator_fuzz::sql::{MAX_STATEMENT_CHARS, parse_statement};

fuzz_target!(|text: &str| {
    match parse_statement(text) {
        Ok(statement) => {
            let printed = print(&statement);
            // Parentheses take room, and levels, that the text didn't need: two for each of `(-(-(-…`.
            // The parser allows 32 levels, so twelve of them fit whatever else nests.
            if printed.len() > MAX_STATEMENT_CHARS || printed.matches('(').count() > 12 {
                return;
            }
            let again = parse_statement(&printed);
            assert_eq!(again.as_ref(), Ok(&statement), "{printed}");
        }
        Err(error) => assert!(!error.in_text(text).message().is_empty()),
    }
});
