//! The engine's answer when it cannot do what it is asked: a gRPC code and a message.
//!
//! The codes are Cloud Spanner's. The messages are shaped like those of Google's emulator; clients
//! should not match on them.

use std::fmt;
use std::time::Duration;

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A gRPC status code that the engine or the service uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// 1
    Cancelled,
    /// 2
    Unknown,
    /// 3
    InvalidArgument,
    /// 4
    DeadlineExceeded,
    /// 5
    NotFound,
    /// 6
    AlreadyExists,
    /// 7
    PermissionDenied,
    /// 8
    ResourceExhausted,
    /// 9
    FailedPrecondition,
    /// 10
    Aborted,
    /// 11
    OutOfRange,
    /// 12
    Unimplemented,
    /// 13
    Internal,
    /// 14
    Unavailable,
}

impl Code {
    /// Every code, for tests and exhaustive searches.
    pub const ALL: [Code; 14] = [
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
    ];

    /// Returns the number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Code::Cancelled => 1,
            Code::Unknown => 2,
            Code::InvalidArgument => 3,
            Code::DeadlineExceeded => 4,
            Code::NotFound => 5,
            Code::AlreadyExists => 6,
            Code::PermissionDenied => 7,
            Code::ResourceExhausted => 8,
            Code::FailedPrecondition => 9,
            Code::Aborted => 10,
            Code::OutOfRange => 11,
            Code::Unimplemented => 12,
            Code::Internal => 13,
            Code::Unavailable => 14,
        }
    }
}

/// As Google writes it: `NOT_FOUND`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::Cancelled => "CANCELLED",
            Code::Unknown => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
        })
    }
}

/// An error, in Cloud Spanner's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    message: String,
    detail: Detail,
}

/// The details that a status carries besides its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// How long to wait before trying again.
    RetryAfter(Duration),
    /// The resource that isn't there.
    Resource {
        /// The kind, such as `type.googleapis.com/google.spanner.v1.Session`.
        kind: &'static str,
        /// Its full name.
        name: String,
    },
}

impl Error {
    /// Returns an error with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), detail: Detail::None }
    }

    /// Returns the error for a request that is wrong whatever the database holds.
    pub fn invalid_argument(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, message)
    }

    /// Returns the error for a request that the schema or the state refuses.
    pub fn failed_precondition(message: impl Into<String>) -> Error {
        Error::new(Code::FailedPrecondition, message)
    }

    /// Something Cloud Spanner does and this one doesn't; the message names it.
    pub fn unimplemented(message: impl Into<String>) -> Error {
        Error::new(Code::Unimplemented, message)
    }

    /// Returns the error for a transaction that lost to another one and should be tried again.
    pub fn aborted(message: impl Into<String>) -> Error {
        let detail = Detail::RetryAfter(Duration::from_millis(1));
        Error { detail, ..Error::new(Code::Aborted, message) }
    }

    /// Returns the error for a missing table that a read, a mutation or a DDL statement names.
    pub fn table_not_found(table: &str) -> Error {
        Error::new(Code::NotFound, format!("Table not found: {table}"))
    }

    /// Returns the error for a missing column that a read, a mutation or a DDL statement names.
    pub fn column_not_found(table: &str, column: &str) -> Error {
        Error::new(Code::NotFound, format!("Column not found in table {table}: {column}"))
    }

    /// Returns a session, database or instance that isn't there.
    pub fn resource_not_found(kind: &'static str, label: &str, name: &str) -> Error {
        let detail = Detail::Resource { kind, name: name.to_owned() };
        Error { detail, ..Error::new(Code::NotFound, format!("{label} not found: {name}")) }
    }

    /// Returns the gRPC code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the text for a person.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the detail that a client may act on.
    pub fn detail(&self) -> &Detail {
        &self.detail
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}
