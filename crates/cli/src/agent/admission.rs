//! The check of each request: it comes from no page of a browser, and carries the token, if there is one.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use nix::unistd::geteuid;

use super::refusal::Refusal;
use super::token_file::TokenFile;
use crate::failure::Result;
use crate::serve::peer::Peer;

/// Here the peer's user stands for the token: the library's processes have none.
pub const WITNESS: &str = "/v1/witness";

/// The token that each request has to carry, if any, and the users that may use a socket.
#[derive(Clone)]
pub struct Admission {
    token: Option<Arc<TokenFile>>,
    uids: Arc<[u32]>,
}

impl Admission {
    /// Reads the token from its file. Besides those users, root may use a socket, and who started this program.
    pub fn read(file: Option<&Path>, uids: &[u32]) -> Result<Admission> {
        let uids = [&[0, geteuid().as_raw()], uids].concat().into();
        let token = file.map(TokenFile::read).transpose()?.map(Arc::new);
        Ok(Admission { token, uids })
    }

    /// The users that may use a socket.
    pub fn uids(&self) -> Arc<[u32]> {
        Arc::clone(&self.uids)
    }

    fn allows(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, given) = given.and_then(|value| value.split_once(' ')).unwrap_or_default();
        scheme.eq_ignore_ascii_case("Bearer") && token.allows(given.trim())
    }
}

pub async fn admit(State(admission): State<Admission>, request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::ORIGIN) {
        return forbidden("pages of a browser are not served here");
    }
    let peer = request.extensions().get::<Peer>();
    if let Some(uid) = peer.map(|peer| peer.uid).filter(|uid| !admission.uids.contains(uid)) {
        return forbidden(&format!(
            "user {uid} may not: start the agent as that user, or with --allow-uid"
        ));
    }
    let is_known = peer.is_some() && request.uri().path() == WITNESS;
    if !is_known && !admission.allows(request.headers()) {
        let text = "send the agent's token, as Authorization: Bearer TOKEN";
        return Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", text).into_response();
    }
    next.run(request).await
}

fn forbidden(text: &str) -> Response {
    Refusal::new(StatusCode::FORBIDDEN, "forbidden", text).into_response()
}

/// Lets any `Host` be that of a Unix socket, which no page of a browser reaches; and has a foreign one refused in the form of
/// every refusal.
pub async fn name_host(mut request: Request, next: Next) -> Response {
    if request.extensions().get::<Peer>().is_some() {
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    }
    let response = next.run(request).await;
    if response.status() != StatusCode::MISDIRECTED_REQUEST {
        return response;
    }
    let text = "this host name is not known here; start with --allow-host NAME to allow it";
    Refusal::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", text).into_response()
}
