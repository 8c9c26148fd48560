//! The errors of Google's client: what they say, and what that means.

use std::any::Any;

use google_cloud_gax::error::rpc::{Code, StatusDetails};

/// Returns the status that Spanner gave, also where a policy of the client wrapped it.
pub(crate) fn code(error: &google_cloud_spanner::Error) -> Option<Code> {
    if let Some(status) = error.status() {
        return Some(status.code);
    }
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<google_cloud_spanner::Error>().and_then(code)
}

/// The part that Spanner says is not there, where it names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Session,
    /// The database, or its instance.
    Database,
    Table,
    /// The column of this name.
    Column(String),
}

impl Missing {
    /// Reads the details of a status, and without them its text, which begins so on every Spanner. A
    /// table or a column stands in no details.
    pub(crate) fn named_in(error: &google_cloud_spanner::Error) -> Option<Missing> {
        let status = error.status().filter(|status| status.code == Code::NotFound)?;
        let resource = status.details.iter().find_map(|detail| match detail {
            StatusDetails::ResourceInfo(resource) => {
                match resource.resource_type.rsplit(['.', '/']).next() {
                    Some("Session") => Some(Missing::Session),
                    Some("Database" | "Instance") => Some(Missing::Database),
                    _ => None,
                }
            }
            _ => None,
        });
        resource.or_else(|| Missing::told_in(&status.message))
    }

    /// Reads `Table not found: T`, `Column not found in table T: C` and the like.
    fn told_in(text: &str) -> Option<Missing> {
        match text.split_once(" not found: ") {
            Some(("Session", _)) => return Some(Missing::Session),
            Some(("Database" | "Instance", _)) => return Some(Missing::Database),
            Some(("Table", _)) => return Some(Missing::Table),
            _ => {}
        }
        let (_, column) = text.strip_prefix("Column not found in table ")?.split_once(": ")?;
        let column = column.split_whitespace().next()?;
        Some(Missing::Column(column.trim_matches(['`', '"', '.']).to_string()))
    }
}

/// Returns an error's text, and that of its causes where it keeps them to itself.
///
/// An error that shows a cause as a debugger would, as tonic's does, is left out for its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    for error in std::iter::successors(Some(error), |error| error.source()) {
        let more = error.to_string();
        let mut causes = std::iter::successors(error.source(), |error| error.source());
        if causes.any(|cause| more.contains(&format!("{cause:?}"))) || text.contains(&more) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&more);
    }
    text
}

/// Returns the client's account of what went wrong. The program of this repository shows it, too.
#[doc(hidden)]
pub fn told_by_client(error: &google_cloud_spanner::Error) -> String {
    match code(error) {
        Some(_) => error.to_string(),
        None if error.is_connect() || error.is_transport() => {
            let causes = with_causes(error);
            // A client's channels are left with this. Only the text tells; it decides nothing.
            let hint = match causes.contains("worker closed") {
                true => "the runtime that made this client is gone, and the client with it",
                false => "see that the endpoint is right, and that this machine reaches it",
            };
            format!("{causes}; {hint}")
        }
        None => with_causes(error),
    }
}

/// Returns true if Spanner said something, be it no: the connection works. The program of this
/// repository asks, too.
#[doc(hidden)]
pub fn is_answer(error: &google_cloud_spanner::Error) -> bool {
    match code(error) {
        // The client says these of itself, too.
        Some(Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown)
        | None => error.is_deserialization(),
        Some(_) => true,
    }
}

/// Returns the text that a panic was raised with.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no text)".into())
}

/// Returns true if a write that ended so certainly was not applied and will not be.
///
/// Everything that is not on this list leaves the outcome unknown.
pub(crate) fn is_definite(error: &google_cloud_spanner::Error) -> bool {
    let before_sending =
        error.is_connect() || error.is_authentication() || error.is_serialization();
    before_sending
        || matches!(
            code(error),
            Some(
                Code::Aborted
                    | Code::AlreadyExists
                    | Code::NotFound
                    | Code::FailedPrecondition
                    | Code::InvalidArgument
                    | Code::OutOfRange
                    | Code::PermissionDenied
                    | Code::Unauthenticated
                    | Code::Unimplemented
            )
        )
}

#[cfg(test)]
pub(super) mod tests {
    use google_cloud_gax::error::rpc::Status;

    use super::*;

    pub(in crate::error) fn service(code: Code) -> google_cloud_spanner::Error {
        google_cloud_spanner::Error::service(Status::default().set_code(code).set_message("no"))
    }

    #[test]
    fn a_missing_session_is_told_from_a_missing_database_by_the_details() {
        for (resource, named) in [
            ("type.googleapis.com/google.spanner.v1.Session", Some(Missing::Session)),
            (
                "type.googleapis.com/google.spanner.admin.database.v1.Database",
                Some(Missing::Database),
            ),
            (
                "type.googleapis.com/google.spanner.admin.instance.v1.Instance",
                Some(Missing::Database),
            ),
            ("spanner.googleapis.com/Table", None),
        ] {
            let detail = serde_json::json!({
                "@type": "type.googleapis.com/google.rpc.ResourceInfo",
                "resourceType": resource,
            });
            let detail: StatusDetails = serde_json::from_value(detail).unwrap();
            let status = Status::default().set_code(Code::NotFound).set_details([detail]);
            let error = google_cloud_spanner::Error::service(status);
            assert_eq!(Missing::named_in(&error), named, "{resource}");
        }
        assert_eq!(Missing::named_in(&service(Code::NotFound)), None);
    }

    #[test]
    fn what_no_detail_names_is_told_by_how_the_text_begins_and_no_row_looks_like_it() {
        let column = Some(Missing::Column("lease_ms".into()));
        for (code, text, named) in [
            (Code::NotFound, "Column not found in table locktable: lease_ms", &column),
            (Code::NotFound, "Column not found in table my.locks: `lease_ms`", &column),
            (Code::NotFound, "Table not found: locktable", &Some(Missing::Table)),
            (Code::NotFound, "Row [Table not found: x] in table locktable is missing.", &None),
            (Code::NotFound, "Transaction not found: 12", &None),
            (Code::NotFound, "Session not found: projects/p/sessions/s", &Some(Missing::Session)),
            (Code::NotFound, "Database not found: projects/p", &Some(Missing::Database)),
            (Code::Unavailable, "Table not found: locktable", &None),
        ] {
            let status = Status::default().set_code(code).set_message(text);
            let error = google_cloud_spanner::Error::service(status);
            assert_eq!(Missing::named_in(&error), *named, "{text}");
        }
    }
}
