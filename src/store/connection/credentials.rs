use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use google_cloud_auth::credentials::Credentials;
use http::Extensions;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::error::Result;

/// The credentials of a connection, one object for each runtime.
///
/// A task of such an object fetches tokens and keeps the last one. It lives on the runtime that made
/// it. A fresh client that has the object of the one before asks nobody for a token while that is
/// valid.
#[derive(Debug, Default)]
pub(super) struct SharedCredentials(Mutex<Vec<RuntimeCredentials>>);

#[derive(Debug)]
struct RuntimeCredentials {
    runtime: Id,
    credentials: Credentials,
    /// Its sender lives in a task on that runtime, and nowhere else.
    runtime_lives: oneshot::Receiver<()>,
}

impl SharedCredentials {
    /// Connects by the credentials that a client of this runtime connected by before, or by those that
    /// `build` makes.
    ///
    /// The task that fetches tokens ends for good with some failures, pauses for 10 s after others, and may wait for
    /// ever. So after an attempt that failed for its credentials the next one builds them anew.
    pub(super) async fn connect<T, F: Future<Output = Result<T>>>(
        &self,
        build: impl FnOnce() -> Result<Credentials>,
        connect: impl FnOnce(Credentials) -> F,
    ) -> Result<T> {
        let runtime = Handle::current();
        let credentials = self.of(runtime.id()).map_or_else(build, Ok)?;
        let connected = connect(credentials.clone()).await;
        match &connected {
            Ok(_) => self.keep(&runtime, credentials),
            Err(error) if error.is_of_credentials() || is_waiting(&credentials) => {
                self.forget(runtime.id());
            }
            Err(_) => {}
        }
        connected
    }

    /// Has the next attempt of this runtime build its credentials.
    pub(super) fn forget(&self, runtime: Id) {
        self.locked().retain(|shared| shared.runtime != runtime);
    }

    fn of(&self, runtime: Id) -> Option<Credentials> {
        let mut all = self.locked();
        // A runtime that is gone took the task along.
        all.retain_mut(RuntimeCredentials::is_of_use);
        all.iter().find(|shared| shared.runtime == runtime).map(|shared| shared.credentials.clone())
    }

    fn keep(&self, runtime: &Handle, credentials: Credentials) {
        let mut all = self.locked();
        if all.iter().all(|shared| shared.runtime != runtime.id()) {
            let (mut sender, runtime_lives) = oneshot::channel();
            runtime.spawn(async move { sender.closed().await });
            all.push(RuntimeCredentials { runtime: runtime.id(), credentials, runtime_lives });
        }
    }

    fn locked(&self) -> MutexGuard<'_, Vec<RuntimeCredentials>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if they have no token, and whoever asks waits for one. The task asks for the next token
/// minutes before the last expires, without a limit: its connection may be dead.
fn is_waiting(credentials: &Credentials) -> bool {
    credentials.headers(Extensions::new()).now_or_never().is_none()
}

impl RuntimeCredentials {
    fn is_of_use(&mut self) -> bool {
        self.runtime_lives.try_recv() == Err(TryRecvError::Empty)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;
    use std::time::Duration;

    use google_cloud_auth::credentials::{CacheableResource, CredentialsProvider, anonymous};
    use google_cloud_gax::error::CredentialsError;
    use google_cloud_gax::error::rpc::{Code, Status};
    use http::HeaderMap;

    use super::*;
    use crate::error::Error;

    /// Connects once with each of these outcomes. Returns how often credentials were built.
    async fn built(shared: &SharedCredentials, outcomes: Vec<Result<()>>) -> u32 {
        let built = Cell::new(0);
        let build = || {
            built.set(built.get() + 1);
            Ok(anonymous::Builder::new().build())
        };
        for outcome in outcomes {
            drop(shared.connect(build, |_| ready(outcome)).await);
        }
        built.get()
    }

    fn failed(error: google_cloud_spanner::Error) -> Result<()> {
        Err(Error::from_read("connect", error))
    }

    fn no_token(is_transient: bool) -> Result<()> {
        let error = CredentialsError::from_msg(is_transient, "no token");
        failed(google_cloud_spanner::Error::authentication(error))
    }

    fn refused(code: Code) -> Result<()> {
        failed(google_cloud_spanner::Error::service(Status::default().set_code(code)))
    }

    #[tokio::test]
    async fn credentials_that_a_client_connected_by_are_those_of_the_next() {
        let shared = SharedCredentials::default();
        let silence = || Err(Error::timed_out("connect", Duration::from_secs(1)));
        assert_eq!(built(&shared, vec![silence(), silence(), Ok(())]).await, 3, "not proven yet");
        let outcomes = vec![Ok(()), silence(), refused(Code::Unavailable), Ok(())];
        assert_eq!(built(&shared, outcomes).await, 0);
    }

    #[tokio::test]
    async fn credentials_that_an_attempt_fails_for_are_built_anew() {
        for failure in [no_token(true), no_token(false), refused(Code::Unauthenticated)] {
            let shared = SharedCredentials::default();
            assert_eq!(built(&shared, vec![Ok(()), failure, Ok(()), Ok(())]).await, 2);
        }
    }

    /// Has no token, and waits for one for ever.
    #[derive(Debug)]
    struct Stuck;

    impl CredentialsProvider for Stuck {
        async fn headers(
            &self,
            _: Extensions,
        ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
            std::future::pending().await
        }

        async fn universe_domain(&self) -> Option<String> {
            None
        }
    }

    #[tokio::test]
    async fn credentials_that_wait_for_a_token_when_an_attempt_fails_are_built_anew() {
        let shared = SharedCredentials::default();
        // The token has expired since.
        assert!(shared.connect(|| Ok(Stuck.into()), |_| ready(Ok(()))).await.is_ok());
        let silence = Err(Error::timed_out("connect", Duration::from_secs(1)));
        assert_eq!(built(&shared, vec![silence, Ok(())]).await, 1);
    }

    #[test]
    fn each_runtime_has_credentials_of_its_own_for_as_long_as_it_lives() {
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let (a, b) = (runtime().unwrap(), runtime().unwrap());
        let shared = SharedCredentials::default();
        for runtime in [&a, &b] {
            assert_eq!(runtime.block_on(built(&shared, vec![Ok(()), Ok(())])), 1);
        }
        drop(a);
        assert_eq!(b.block_on(built(&shared, vec![Ok(())])), 0);
        assert_eq!(shared.locked().len(), 1, "that of the runtime that is gone is dropped");
    }
}
