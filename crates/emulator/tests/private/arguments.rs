//! The arguments of the program, and their defaults.

use spindle_emulator::engine::VERSION_RETENTION;

use super::*;

fn parse(text: &str) -> Arguments {
    Arguments::try_parse_from(text.split_whitespace()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_is_not_said_has_a_default() {
    let none = parse("spindle-emulator");
    assert_eq!((none.port, none.rest(), none.host.is_loopback()), (9010, 9020, true));
    assert_eq!(none.databases, ["projects/p/instances/i/databases/d"]);
    let some = parse("spindle-emulator --port=0 --database a --database b --ddl x --lenient-ddl");
    assert_eq!((some.port, some.rest(), some.databases.len()), (0, 0, 2));
    assert!(some.lenient_ddl);
    assert_eq!(parse("spindle-emulator --port=0 --rest 7").rest(), 7);
    let short = parse("spindle-emulator --version-retention 5").version_retention;
    assert_eq!((none.version_retention, short), (VERSION_RETENTION, Duration::from_secs(5)));
}
