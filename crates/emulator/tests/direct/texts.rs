//! The places in a text, how an error shows them, documents, and the names of functions.

use spindle_emulator::engine::Json;
use spindle_emulator::sql::{Pos, SqlError, functions, parse_statement};

#[test]
fn an_error_knows_its_line_and_column() {
    for (text, place) in [
        ("é a", "1:1"),
        ("SELECT 'é' )", "1:12"),
        ("SELECT 'é',\n\t)", "2:9"),
        ("SELECT 1,\n  'x\\n' )", "2:9"),
        ("SELECT 1,\n  'x\\n' AS", "2:11"),
    ] {
        let error = parse_statement(text).unwrap_err();
        assert_eq!(error.at().unwrap().to_string(), place, "{text}: {error}");
    }
    let error = parse_statement("é a").unwrap_err();
    assert_eq!(error.to_string(), "Syntax error: Illegal input character \"é\" [at 1:1]");
}

#[test]
fn an_error_shows_its_line_and_a_caret_below() {
    let text = "SELECT 1\n\tFROM nothing\r\n";
    let error = SqlError::invalid(Pos { line: 2, column: 14 }, "Table not found: nothing");
    assert_eq!(
        error.in_text(text).message(),
        "Table not found: nothing [at 2:14]\n        FROM nothing\n             ^"
    );
    let long = format!("SELECT '{}'", "x".repeat(1_000));
    let error = SqlError::invalid(Pos { line: 1, column: 8 }, "No");
    assert_eq!(error.in_text(&long).message(), "No [at 1:8]");
}

#[test]
fn a_document_of_too_many_levels_is_refused() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(Json::parse(&nested(80)).is_ok());
    assert!(Json::parse(&nested(81)).is_err());
    assert!(Json::parse(&nested(1_000_000)).is_err());
}

#[test]
fn the_readme_and_the_fuzzers_know_every_function() {
    let names = functions().map(|function| function.name);
    let called: Vec<&str> =
        names.filter(|name| name.starts_with(char::is_alphabetic) && *name != "LIKE").collect();
    let read = |path: &str| {
        let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let listed = format!("| functions | {} |", called.join(", "));
    assert!(read("README.md").contains(&listed), "README.md should say: {listed}");
    let dictionary = read("fuzz/googlesql.dict");
    for name in called {
        assert!(dictionary.contains(&format!("\"{name}")), "googlesql.dict misses {name}");
    }
}
