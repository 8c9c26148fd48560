//! The check of each request: it comes from no page of a browser, and carries the token, if there is one.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use nix::unistd::geteuid;
use subtle::ConstantTimeEq as _;

use super::request::Refusal;
use crate::failure::{Code, Failure, Result};
use crate::serve::peer::Peer;

/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Here the peer's user stands for the token: the library's processes have none.
pub const WITNESS: &str = "/v1/witness";

/// The token that each request has to carry, if any, and the users that may use a socket.
#[derive(Clone)]
pub struct Admission {
    token: Option<Arc<str>>,
    uids: Arc<[u32]>,
}

impl Admission {
    /// Reads the token from its file. Besides those users, root may use a socket, and who started this program.
    pub fn read(file: Option<&Path>, uids: &[u32]) -> Result<Admission> {
        let uids = [&[0, geteuid().as_raw()], uids].concat().into();
        let Some(file) = file else { return Ok(Admission { token: None, uids }) };
        let refused = |why: String| {
            Failure::new(Code::Usage, format!("--token-file {}: {why}", file.display()))
                .cure(format!("write a secret of at least {TOKEN_BYTES_MIN} bytes into it"))
        };
        let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
        let token = text.trim();
        if token.len() < TOKEN_BYTES_MIN {
            return Err(refused("the token is too short".to_string()));
        }
        Ok(Admission { token: Some(token.into()), uids })
    }

    fn allows(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        // In a time that doesn't tell how many bytes are right.
        given.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

pub async fn admit(State(admission): State<Admission>, request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::ORIGIN) {
        let text = "pages of a browser are not served here".to_string();
        return Refusal(StatusCode::FORBIDDEN, text).into_response();
    }
    let peer = request.extensions().get::<Peer>();
    if let Some(uid) = peer.map(|peer| peer.uid).filter(|uid| !admission.uids.contains(uid)) {
        let text = format!("user {uid} may not: start the agent as that user, or with --allow-uid");
        return Refusal(StatusCode::FORBIDDEN, text).into_response();
    }
    let is_known = peer.is_some() && request.uri().path() == WITNESS;
    if !is_known && !admission.allows(request.headers()) {
        let text = "send the agent's token, as Authorization: Bearer TOKEN".to_string();
        return Refusal(StatusCode::UNAUTHORIZED, text).into_response();
    }
    next.run(request).await
}
