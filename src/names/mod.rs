//! The rules for names: of tables, locks and instances, and of the rows that are the library's own.

mod token;

use spindle_protocol::is_takeover_key;

use crate::error::{Error, Result};
use crate::system::random;

/// Spanner's keys have at most 8 KiB, of which a takeover row adds 20 bytes.
pub(crate) const NAME_BYTES_MAX: usize = 4_096;
pub(crate) const ID_BYTES_MAX: usize = 256;
pub(crate) const INFO_BYTES_MAX: usize = 4_096;

/// The prefix of the names of the library's own rows, which are no user's locks.
const RESERVED: &str = "spindle:";

/// Refuses a name that is kept for the library's own rows.
pub(crate) fn check_not_reserved(name: &str) -> Result<()> {
    if name.starts_with(RESERVED) {
        return Err(Error::config(format!(
            "lock name `{name}`: begins with `{RESERVED}`, which is reserved for members, shards, \
             permits, readers and writers, and jobs"
        )));
    }
    Ok(())
}

/// Returns the fleet to which a row of the library's own belongs: all of the name but its last
/// part.
pub(crate) fn fleet_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(RESERVED)?;
    // A kind alone, such as `rw:jobs`, is a fleet's own row.
    Some(rest.rfind('/').map_or(name, |end| &name[..RESERVED.len() + end]))
}

/// Returns true if this is the key of a row that names the count of some shards: it is no lock.
pub(crate) fn is_shard_count_key(key: &str) -> bool {
    let parts = key.strip_prefix(RESERVED).and_then(|rest| rest.strip_prefix("shard:"));
    parts.is_some_and(|parts| parts.ends_with("/count") && parts.matches('/').count() == 2)
}

/// Begins the keys of the rows of jobs.
pub(crate) const JOBS_PREFIX: &str = "spindle:job:";

/// Returns the key of the row that has the record of a job, whose lock has this name.
pub(crate) fn job_key(lock: &str) -> String {
    format!("{JOBS_PREFIX}{lock}")
}

/// Returns true if this is the key of the row of a job.
pub(crate) fn is_job_key(key: &str) -> bool {
    key.starts_with(JOBS_PREFIX)
}

/// Returns the name of the job whose row has this key.
pub(crate) fn job_name(key: &str) -> &str {
    key.strip_prefix(JOBS_PREFIX).unwrap_or_default()
}

/// Returns true if this is the key of a row of the library's own that nobody holds.
pub(crate) fn is_no_lock(key: &str) -> bool {
    is_shard_count_key(key) || is_job_key(key)
}

/// Refuses a row of the library's own that nobody holds where a lock is asked for.
pub(crate) fn check_is_lock(key: &str) -> Result<()> {
    if is_shard_count_key(key) {
        return Err(Error::config(format!(
            "lock `{key}`: no lock, but the count of a group's shards; \
             `ShardCount::resize` or `spindle shards GROUP/NAME --resize COUNT` changes it"
        )));
    }
    if let Some(job) = key.strip_prefix(JOBS_PREFIX) {
        return Err(Error::config(format!(
            "lock `{key}`: no lock, but the record of a job; `LockTable::remove_job` or \
             `spindle job rm {job}` removes it"
        )));
    }
    Ok(())
}

/// Returns true if this is the key of a gate.
pub(crate) fn is_gate(key: &str) -> bool {
    key.strip_prefix(RESERVED)
        .and_then(|rest| rest.strip_prefix("rw:"))
        .is_some_and(|rest| !rest.contains('/'))
}

/// Returns the subject of an error about the library's own rows with this prefix.
pub(crate) fn subject(prefix: &str) -> String {
    let words = prefix.strip_prefix(RESERVED).and_then(|rest| rest.split_once(':'));
    let (what, rest) = match words {
        Some(("job", name)) => return format!("job `{name}`"),
        Some(("member" | "share" | "shard", rest)) => ("group", rest),
        Some(("permit", rest)) => ("semaphore", rest),
        Some(("rw", rest)) => ("readers and writers' lock", rest),
        _ => return format!("lock `{prefix}`"),
    };
    let name = rest.split_once('/').map_or(rest, |(name, _)| name);
    format!("{what} `{name}`")
}

/// Returns true for the row of one member, or of its share: nobody but the instance of that id wants it.
pub(crate) fn is_of_one_member(key: &str) -> bool {
    let words = key.strip_prefix(RESERVED).and_then(|rest| rest.split_once(':'));
    matches!(words, Some(("member" | "share", _)))
}

/// Refuses an id that no instance can have, and says which rule it breaks.
pub(crate) fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(format!("id of {} bytes; expected 1 to {ID_BYTES_MAX}", id.len()));
    }
    if id.starts_with('>') || id.chars().any(char::is_control) {
        return Err(format!("id {id:?} starts with `>` or has a control character"));
    }
    Ok(())
}

/// The environment variable that names the process in the rows of its locks.
pub(crate) const ID_VARIABLE: &str = "SPINDLE_ID";

/// Returns the id that the environment names, if it does. Bytes that are no text are replaced.
pub(crate) fn environment_id() -> Option<String> {
    std::env::var_os(ID_VARIABLE).map(|id| id.to_string_lossy().into_owned())
}

/// Refuses an id of the environment; the text names the variable.
pub(crate) fn check_environment_id(id: &str) -> Result<(), String> {
    let checked = match check_id(id) {
        Ok(()) if id.contains(char::REPLACEMENT_CHARACTER) => {
            Err(format!("id {id:?} is not UTF-8"))
        }
        checked => checked,
    };
    checked.map_err(|rule| format!("{rule}, in {ID_VARIABLE}"))
}

/// Refuses a name that looks like a takeover row's (I6), and one that is no key for Spanner.
pub(crate) fn check_lock_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::config("lock name: empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::config(format!(
            "lock name of {} bytes; at most {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if let Some((_, digits)) = name.rsplit_once('_')
        && (16..=20).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(Error::config(format!(
            "lock name `{name}`: ends in `_` and 16 to 20 digits, which is reserved for takeovers; \
             put another mark before the digits, such as `/`"
        )));
    }
    Ok(())
}

/// Accepts an identifier, or two with a dot between for a table in a named schema.
pub(crate) fn check_table_name(table: &str) -> Result<()> {
    let is_identifier = |part: &str| {
        let mut bytes = part.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && part.len() <= 128
    };
    let well_formed = match table.split_once('.') {
        Some((schema, table)) => is_identifier(schema) && is_identifier(table),
        None => is_identifier(table),
    };
    if well_formed {
        return Ok(());
    }
    Err(Error::config(format!("table name `{table}`: expected an identifier such as `locktable`")))
}

pub(crate) fn default_id() -> String {
    let random = random::draw::<u32>();
    format!("{}-{}-{random:08x}", host_name(), std::process::id())
}
fn host_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Fully qualified names say the same thing for longer.
    match host.split('.').next() {
        Some(first) if !first.is_empty() => first.to_string(),
        _ => "host".to_string(),
    }
}

/// Returns true if `key` has the form of a takeover row of some lock.
pub(crate) fn looks_like_takeover_row(key: &str) -> bool {
    key.rsplit_once('_').is_some_and(|(lock, _)| is_takeover_key(lock, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_librarys_own_is_refused_to_users() {
        for name in ["spindle:", "spindle:member:orders/a", "spindle:rw:x"] {
            let refused = check_not_reserved(name).unwrap_err();
            assert!(refused.is_config() && refused.to_string().contains(name), "{refused}");
        }
        for name in ["spindle", "spindles:a", "a spindle:", "Spindle:a"] {
            assert!(check_not_reserved(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_error_about_rows_of_the_librarys_own_names_what_its_user_knows() {
        for (prefix, expected) in [
            ("spindle:member:orders/", "group `orders`"),
            ("spindle:share:orders/partitions/", "group `orders`"),
            ("spindle:shard:orders/partitions/7", "group `orders`"),
            ("spindle:permit:uploads/", "semaphore `uploads`"),
            ("spindle:rw:catalogue", "readers and writers' lock `catalogue`"),
            ("spindle:rw:catalogue/", "readers and writers' lock `catalogue`"),
            ("job", "lock `job`"),
        ] {
            assert_eq!(subject(prefix), expected);
        }
        assert!(is_gate("spindle:rw:a") && !is_gate("spindle:rw:a/write") && !is_gate("rw:a"));
    }

    #[test]
    fn a_row_that_names_a_count_is_told_from_the_locks_beside_it() {
        assert!(is_shard_count_key("spindle:shard:orders/emails/count"));
        for name in
            ["spindle:shard:orders/emails/7", "spindle:share:orders/emails/count", "orders/count"]
        {
            assert!(!is_shard_count_key(name), "{name}");
        }
        assert!(!is_shard_count_key("spindle:shard:orders/count/7"));
    }

    #[test]
    fn a_row_of_the_librarys_own_belongs_to_a_fleet() {
        for (name, fleet) in [
            ("spindle:member:orders/node-1", Some("spindle:member:orders")),
            ("spindle:shard:orders/emails/17", Some("spindle:shard:orders/emails")),
            ("spindle:shard:orders/emails/count", Some("spindle:shard:orders/emails")),
            ("spindle:permit:api/0", Some("spindle:permit:api")),
            ("spindle:rw:jobs", Some("spindle:rw:jobs")),
            ("spindle:rw:jobs/reader", Some("spindle:rw:jobs")),
            ("spindle:rw:jobs/write", Some("spindle:rw:jobs")),
            ("orders/1", None),
            ("spindles:a/b", None),
        ] {
            assert_eq!(fleet_of(name), fleet, "{name}");
        }
    }

    #[test]
    fn a_default_id_is_readable_and_different_each_time() {
        let (one, other) = (default_id(), default_id());
        assert_ne!(one, other);
        assert!(one.contains(&format!("-{}-", std::process::id())), "{one}");
    }

    #[test]
    fn an_id_of_the_environment_that_cannot_be_is_refused_by_the_name_of_its_variable() {
        for id in ["", ">a", "a\nb", "caf\u{fffd}", &"x".repeat(300)] {
            let refused = check_environment_id(id).unwrap_err();
            assert!(
                refused.starts_with("id ") && refused.ends_with(", in SPINDLE_ID"),
                "{refused}"
            );
        }
        assert!(check_environment_id("pod-1").is_ok());
    }
}
