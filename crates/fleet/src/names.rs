//! The keys of the rows of groups, semaphores, readers and writers, and the rules for their parts.

use spindle::{Error, Result};

const PART_BYTES_MAX: usize = 256;

/// Refuses a group, a name or an id that could not be told from its neighbours in a key.
///
/// The argument `what` names the part.
pub(crate) fn check_part(what: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > PART_BYTES_MAX {
        let bytes = text.len();
        return Err(Error::config(format!(
            "{what}: {bytes} bytes; expected 1 to {PART_BYTES_MAX}"
        )));
    }
    if text.contains('/') || text.chars().any(char::is_control) {
        return Err(Error::config(format!("{what} {text:?}: has `/` or a control character")));
    }
    Ok(())
}

/// Returns the key of the row of the member `id`.
pub(crate) fn member_key(group: &str, id: &str) -> String {
    format!("{}{id}", members_prefix(group))
}

/// Returns the beginning of the keys of the rows of a group's members.
pub(crate) fn members_prefix(group: &str) -> String {
    format!("spindle:member:{group}/")
}

/// Returns the beginning of the keys of the rows of the members that share these shards.
pub(crate) fn shares_prefix(group: &str, name: &str) -> String {
    format!("spindle:share:{group}/{name}/")
}

/// Returns the beginning of the keys of the rows of these shards.
pub(crate) fn shards_prefix(group: &str, name: &str) -> String {
    format!("spindle:shard:{group}/{name}/")
}

/// Returns the key of the row that names the count of these shards.
///
/// It stands among theirs, so that one read at one timestamp shows it with them. None of them is
/// called so: they have numbers.
pub(crate) fn shard_count_key(group: &str, name: &str) -> String {
    format!("{}count", shards_prefix(group, name))
}

/// Returns the beginning of the keys of the rows of a semaphore's permits.
pub(crate) fn permits_prefix(name: &str) -> String {
    format!("spindle:permit:{name}/")
}

/// Returns the key of the gate of readers and writers.
pub(crate) fn gate_key(name: &str) -> String {
    format!("spindle:rw:{name}")
}

/// Returns the key of the write lock. No reader's row has it: those end in an id, `-` and 16 digits.
pub(crate) fn write_lock_key(name: &str) -> String {
    format!("{}write", readers_prefix(name))
}

/// Returns the beginning of the keys of a lock's readers and of its write lock.
pub(crate) fn readers_prefix(name: &str) -> String {
    format!("{}/", gate_key(name))
}

/// Reads a number as these keys have it, and no other way of writing it.
pub(crate) fn number(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_key_cannot_reach_into_the_next_part() {
        for part in ["", "a/b", "/", "a\nb", "\0", &"x".repeat(257)] {
            let refused = check_part("group", part).unwrap_err();
            let text = refused.to_string();
            assert!(refused.is_config() && text.starts_with("group") && text.len() < 100, "{text}");
        }
        for part in ["orders", "a:b", "spindle:", "日本", "a b", &"x".repeat(256)] {
            assert!(check_part("group", part).is_ok(), "{part}");
        }
    }

    #[test]
    fn a_number_in_a_key_is_written_in_one_way() {
        assert_eq!((number("0"), number("17")), (Some(0), Some(17)));
        for text in ["", "+1", "01", "1 ", "-1", "a", "99999999999999999999999"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
