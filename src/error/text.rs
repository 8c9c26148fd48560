//! The texts of errors, for people.

use std::fmt;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::{Expected, Seen, Timestamp};

use super::client::{code, told_by_client};
use super::kind::{Error, Kind};
use super::term_end::TermEnd;
use crate::token::FencingToken;

/// How people give the client credentials.
const CREDENTIALS_HINT: &str = "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud \
     auth application-default login`, or set SPANNER_EMULATOR_HOST to reach an emulator";

/// The cure for a client that nobody can replace.
const CLIENT_HINT: &str = "restart the process, or give the path of the database instead";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Config(message) | Kind::Schema(message) => f.write_str(message),
            Kind::Fenced { lock, token, end } => {
                write!(f, "lock `{lock}`: token {token} ")?;
                write_end(f, Some(end))
            }
            Kind::Ended { lock, token, end } => {
                write!(f, "lock `{lock}`: token {token} ended in this process: ")?;
                write_end(f, end.as_ref())
            }
            Kind::Stale { token, highest } => {
                write!(f, "fencing token {token} superseded by {highest}, the highest seen")
            }
            Kind::NotHeld { lock } => write!(f, "lock `{lock}`: not held by this instance"),
            Kind::Disconnected { database } => {
                write!(f, "database `{database}`: the connection was lost while it was made")
            }
            Kind::SessionLost { database: Some(database) } => write!(
                f,
                "the connection to `{database}`: its session is gone; the next call makes a new one"
            ),
            Kind::SessionLost { database: None } => write!(
                f,
                "the client that was given: its session is gone, and it never makes a new one; \
                 {CLIENT_HINT}"
            ),
            Kind::Denied { doing, source } => write_refusal(f, doing, source, true),
            Kind::Failed { doing, source } => write_refusal(f, doing, source, false),
            Kind::Unknown { doing, source } => {
                let told = source.as_ref().map_or("no answer in time".into(), told_by_client);
                write!(f, "{doing}: outcome unknown: {told}")
            }
            Kind::TimedOut { doing, limit } => write!(f, "{doing}: no answer within {limit:?}"),
            Kind::NotAcquired { subject, limit, trouble } => {
                write!(f, "{subject}: not acquired within {limit:?}")?;
                trouble.as_ref().map_or(Ok(()), |trouble| write!(f, ": {trouble}"))
            }
            Kind::Overtaken { lock, limit } => {
                write!(f, "lock `{lock}`: not seized within {limit:?}: others made its row first")
            }
            Kind::NotVacant { lock, holding } => {
                write!(f, "lock `{lock}`: not vacant, so its row stays: {holding}")
            }
            Kind::OtherTerm { lock, expected, found } => write_other_term(f, lock, expected, found),
            Kind::Other { text, .. } => f.write_str(text),
            Kind::Panicked { lock, message } => {
                write!(f, "lock `{lock}`: what ran under it panicked: {message}")
            }
            Kind::Unstoppable { lock } => write!(
                f,
                "lock `{lock}`: what ran under it blocks its thread and could not be stopped; the \
                 lease is left to run out"
            ),
            Kind::DeadClient { lock, lasting, last } => write!(
                f,
                "lock `{lock}`: the client that was given has been of no use for {lasting:?}; \
                 {CLIENT_HINT}: {last}"
            ),
            Kind::NoAgent { socket, why } => write!(f, "agent at `{socket}`: {why}"),
            Kind::Stalled { lock, overdue } => write!(
                f,
                "lock `{lock}`: the background loop ought to have run {overdue:?} ago; its runtime is \
                 blocked, or nothing drives it"
            ),
            Kind::Task { lock, what, .. } => write!(f, "lock `{lock}`: {what}"),
            Kind::Abandoned { lock } => write!(
                f,
                "lock `{lock}`: the background loop is gone; it panicked, or its runtime shut down"
            ),
        }
    }
}

fn write_refusal(
    f: &mut fmt::Formatter<'_>,
    doing: &str,
    source: &google_cloud_spanner::Error,
    is_denied: bool,
) -> fmt::Result {
    let told = told_by_client(source);
    if source.is_authentication() {
        write!(f, "{doing}: no usable credentials ({CREDENTIALS_HINT}): {told}")
    } else if is_denied && code(source) == Some(Code::Unauthenticated) {
        write!(f, "{doing}: credentials refused by spanner ({CREDENTIALS_HINT}): {told}")
    } else if is_denied {
        write!(f, "{doing}: refused by spanner: {told}")
    } else {
        write!(f, "{doing}: {told}")
    }
}

fn write_other_term(
    f: &mut fmt::Formatter<'_>,
    lock: &str,
    expected: &Expected,
    found: &Option<Seen>,
) -> fmt::Result {
    let term = |holder: Option<&str>, token: Option<Timestamp>| {
        let holder = holder.map_or("nobody".to_string(), |id| format!("`{id}`"));
        let token = token.map(FencingToken::from_timestamp);
        token.map_or(holder.clone(), |token| format!("{holder} under token {token}"))
    };
    match found {
        Some(found) => {
            write!(f, "lock `{lock}`: held by {}", term(found.writer.id(), Some(found.token)))
        }
        None => write!(f, "lock `{lock}`: held by nobody, without a row"),
    }?;
    match (&expected.holder, expected.token.map(FencingToken::from_timestamp)) {
        (None, Some(token)) => write!(f, ", not under token {token}"),
        (holder, _) => write!(f, ", not by {}", term(holder.as_deref(), expected.token)),
    }?;
    f.write_str("; nothing was done")
}

fn write_end(f: &mut fmt::Formatter<'_>, end: Option<&TermEnd>) -> fmt::Result {
    f.write_str(match end {
        Some(TermEnd::LetGo) => "its holder let go of it",
        Some(TermEnd::Lapsed) => "left to run out, because its work did not stop",
        Some(TermEnd::Superseded { by: Some(by), holder, .. }) => {
            write!(f, "superseded by {by}, held by ")?;
            return match holder {
                Some(holder) => write!(f, "`{holder}`"),
                None => f.write_str("nobody"),
            };
        }
        Some(TermEnd::Superseded { by: None, .. }) => "superseded; the lock has no row now",
        Some(TermEnd::OutOfContact { contact: Some(contact) }) => {
            return write!(f, "out of contact with spanner: {contact}");
        }
        Some(TermEnd::OutOfContact { contact: None }) => "out of contact with spanner",
        Some(TermEnd::Abandoned) => "its loop is gone",
        Some(TermEnd::Expired) | None => "its lease ran out",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::client::tests::service;
    use crate::error::kind::tests::no_credential;
    use crate::token::FencingToken;

    #[test]
    fn an_error_of_credentials_says_where_they_come_from() {
        let refused = Error::from_read("read", service(Code::Unauthenticated));
        for error in [no_credential(true), no_credential(false), refused] {
            for way in [
                "GOOGLE_APPLICATION_CREDENTIALS",
                "gcloud auth application-default login",
                "SPANNER_EMULATOR_HOST",
            ] {
                assert!(error.to_string().contains(way), "{error}");
            }
        }
        let denied = Error::from_read("read", service(Code::PermissionDenied));
        assert!(!denied.to_string().contains("gcloud"), "{denied}");
    }

    #[test]
    fn a_superseded_token_is_shown_beside_the_one_that_superseded_it() {
        let [token, by] = [41, 42].map(FencingToken::from_nanoseconds);
        let end = TermEnd::Superseded { by: Some(by), holder: Some("b".into()) };
        let error = Error::new(Kind::Fenced { lock: "jobs".into(), token, end });
        assert_eq!(error.to_string(), "lock `jobs`: token 41 superseded by 42, held by `b`");
        assert!(error.is_fenced() && !error.is_retryable());
    }
}
