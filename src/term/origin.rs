//! How a term comes about.

use spindle_protocol::{Named, Row, Timestamp};

/// Returns how the term of `id` came about by displacing this row, which says or doesn't say that it
/// was seized. That is a word, and since when nobody held, by Spanner's clock. A grace counts,
/// so that it measures hand-overs; a history leaves it out.
pub(crate) fn origin(
    displaced: Option<&(Row, bool)>,
    id: &str,
) -> (&'static str, Option<Timestamp>) {
    let Some((row, is_seized)) = displaced else { return ("first", None) };
    if row.is_released() {
        let how = match row.writer.names() {
            _ if *is_seized => "seized",
            // By its id: who stands in line is named by its process.
            Named::Successor(successor) if successor == id => "handed_over",
            _ => "released",
        };
        return (how, Some(row.token));
    }
    let since = row.lease.map(|lease| row.heartbeat + lease);
    let evicted = row.writer.names() == Named::Nobody;
    (if evicted { "evicted" } else { "expired" }, since)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spindle_protocol::Writer;

    use super::*;

    fn row(writer: &str, heartbeat: i64) -> Row {
        let lease = Some(Duration::from_nanos(10));
        let (heartbeat, token) = (Timestamp(heartbeat), Timestamp(100));
        Row { heartbeat, token, writer: Writer::from(writer), lease }
    }

    #[test]
    fn the_displaced_row_says_how_a_term_came_about() {
        let told = |writer, heartbeat, seized| {
            let (how, since) = origin(Some(&(row(writer, heartbeat), seized)), "a");
            (how, since.map(|since| since.0))
        };
        assert_eq!(origin(None, "a"), ("first", None));
        assert_eq!(told("", 0, false), ("released", Some(100)));
        assert_eq!(told(">a", 0, false), ("handed_over", Some(100)));
        assert_eq!(told(">b", 0, false), ("released", Some(100)));
        assert_eq!(told(">a", 0, true), ("seized", Some(100)));
        assert_eq!(told("b", 105, false), ("expired", Some(115)));
        // A writer of another form is a holder of another implementation.
        assert_eq!(told("!b!500", 105, false), ("expired", Some(115)));
        assert_eq!(told("", 105, false), ("evicted", Some(115)));
        // Written by hand: nobody evicts in favour of a contender.
        assert_eq!(told(">a", 105, false), ("expired", Some(115)));
    }
}
