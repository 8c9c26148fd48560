//! The engine's answer when it cannot do what it is asked: a gRPC code and a message.
//!
//! The codes are Cloud Spanner's. The messages are shaped like those of Google's emulator; clients
//! should not match on them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A gRPC status code that the engine or the service uses, with its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "each is Google's code of the same name")]
pub enum Code {
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// Every code, for tests and exhaustive searches.
    pub const ALL: [Code; 16] = [
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
        Code::DataLoss,
        Code::Unauthenticated,
    ];

    /// Returns the number on the wire.
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// As Google writes it: `NOT_FOUND`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
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

    /// Returns the error for what Cloud Spanner does and this one doesn't; the message names it.
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

    /// Returns the error for a session, database or instance that isn't there.
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
