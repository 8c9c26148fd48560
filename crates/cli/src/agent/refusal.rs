//! The answers to requests that are not carried out: a status, a code for programs, and a sentence.

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::serve::answers::json;

pub type Result<T> = std::result::Result<T, Refusal>;

/// The code where another request has taken the name of a claim.
pub const CLAIM_EXISTS: &str = "claim_exists";

/// A refusal. Programs go by its code, which never changes; `docs/agent.yaml` lists them.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    text: String,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, text: impl Into<String>) -> Refusal {
        Refusal { status, code, text: text.into() }
    }

    pub fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// The sentence alone.
    pub fn text(self) -> String {
        self.text
    }
}

pub fn bad(text: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "bad_request", text)
}

/// The refusal of what may work a little later.
pub fn unavailable(code: &'static str, text: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, code, text)
}

pub fn is_ending() -> Refusal {
    unavailable("ending", "the agent is about to end")
}

/// The library or Spanner is the reason.
impl From<spindle::Error> for Refusal {
    fn from(error: spindle::Error) -> Refusal {
        let (status, code) = match &error {
            error if error.is_config() => (StatusCode::BAD_REQUEST, "bad_request"),
            error if error.is_not_acquired() => (StatusCode::CONFLICT, "held"),
            _ => (StatusCode::BAD_GATEWAY, "spanner"),
        };
        Refusal::new(status, code, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "error": self.text, "code": self.code });
        let mut response = json(self.status, &body);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
