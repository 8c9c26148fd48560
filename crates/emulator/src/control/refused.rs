//! Why a control request is refused.

use std::io;

use http::StatusCode;

use crate::engine;

/// Why a request was refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub status: StatusCode,
    pub reason: String,
}

impl Refused {
    /// Returns the error for a request that makes no sense.
    pub fn malformed(reason: impl Into<String>) -> Refused {
        Refused { status: StatusCode::BAD_REQUEST, reason: reason.into() }
    }

    /// Something that isn't there.
    pub fn missing(what: &str) -> Refused {
        Refused { status: StatusCode::NOT_FOUND, reason: format!("{what} is not there") }
    }
}

impl From<engine::Error> for Refused {
    fn from(error: engine::Error) -> Refused {
        let status = match error.code() {
            engine::Code::AlreadyExists => StatusCode::CONFLICT,
            engine::Code::NotFound => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        };
        Refused { status, reason: error.to_string() }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused { status: StatusCode::SERVICE_UNAVAILABLE, reason: error.to_string() }
    }
}
