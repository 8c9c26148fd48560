//! No DDL text makes the parser panic, and what it understands is a schema or a proper error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindle_emulator_fuzz::engine::Schema;
use spindle_emulator_fuzz::sql::parse_ddl;

fuzz_target!(|text: &str| {
    match parse_ddl(text) {
        Ok(changes) => {
            let mut schema = Schema::default();
            for change in &changes {
                if schema.apply(change).is_err() {
                    break;
                }
            }
        }
        Err(error) => assert!(!error.in_text(text).message().is_empty()),
    }
});
