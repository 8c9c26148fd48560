//! The rows of a table whose names begin alike, page by page.

use google_cloud_spanner::key;
use google_cloud_spanner::key::{Key, KeyRange, KeySet};
use spindle_protocol::{StoredRow, Timestamp};

use crate::batch::Columns;
use crate::error::Result;
use crate::store::{REQUEST_LIMIT, Table, despite_others};

/// The rows of one page, which is all that a listing has in memory.
pub(super) const PAGE_ROWS: i64 = 100;

/// The pages that are still to be read. Each is one strong read of its own.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) prefix: String,
    pub(super) rows_max: i64,
    /// The last key that was read.
    last: Option<String>,
    is_over: bool,
}

impl Pages {
    /// Returns the pages of a whole table.
    pub(super) fn all() -> Pages {
        Pages { prefix: String::new(), rows_max: PAGE_ROWS, last: None, is_over: false }
    }

    /// Returns the next page, and Spanner's timestamp of its read; none after the last. After an
    /// error the next call reads the same page.
    pub(super) async fn next(
        &mut self,
        table: &Table,
    ) -> Result<Option<(Vec<StoredRow>, Timestamp)>> {
        if self.is_over {
            return Ok(None);
        }
        let keys = keys_with(&self.prefix, self.last.as_deref());
        let read = despite_others(|| table.read_page(keys.clone(), self.rows_max));
        let (rows, read_at) = read.await?;
        self.is_over = i64::try_from(rows.len()).is_ok_and(|rows| rows < self.rows_max);
        self.last = rows.last().map(|row| row.key.clone()).or(self.last.take());
        Ok(Some((rows, read_at)))
    }
}

impl Table {
    /// Returns rows of a range of keys in order, at most `rows_max`, and Spanner's timestamp of the
    /// read.
    pub(super) async fn read_page(
        &self,
        keys: KeySet,
        rows_max: i64,
    ) -> Result<(Vec<StoredRow>, Timestamp)> {
        let doing = || format!("table `{}`: read its rows", self.name);
        let page =
            self.spanner.read(keys, Some(rows_max), Columns::All, REQUEST_LIMIT, doing).await?;
        Ok((page.rows, page.read_at))
    }
}

/// Returns the keys that begin with `prefix` and come after `last`, or all of them.
fn keys_with(prefix: &str, last: Option<&str>) -> KeySet {
    let start = |last: &str| key![last.to_string()];
    // An end of no columns is the end of the table.
    let all = || Key::new(Vec::new());
    let range = match (last, after(prefix)) {
        (None, _) if prefix.is_empty() => return KeySet::all(),
        (None, None) => KeyRange::closed_closed(start(prefix), all()),
        (None, Some(end)) => KeyRange::closed_open(start(prefix), key![end]),
        (Some(last), None) => KeyRange::open_closed(start(last), all()),
        (Some(last), Some(end)) => KeyRange::open_open(start(last), key![end]),
    };
    KeySet::builder().add_range(range).build()
}

/// Returns the first text that comes after all that begin with `prefix`, if there is one.
fn after(prefix: &str) -> Option<String> {
    let mut text: Vec<char> = prefix.chars().collect();
    while let Some(last) = text.pop() {
        // Between the two lie the surrogates, which no text has.
        let next =
            if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            text.push(next);
            return Some(text.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_begins_with_a_prefix_comes_after_its_end() {
        assert_eq!(after("shard-"), Some("shard.".to_string()));
        assert_eq!(after("a\u{10ffff}"), Some("b".to_string()));
        assert_eq!(after("\u{d7ff}"), Some("\u{e000}".to_string()));
        assert_eq!(after(""), None);
        assert_eq!(after("\u{10ffff}\u{10ffff}"), None);
        for prefix in ["a", "é", "日本", "\u{d7ff}"] {
            let end = after(prefix).unwrap();
            assert!(end.as_str() > prefix && end > format!("{prefix}\u{10ffff}"), "{prefix}");
        }
    }
}
