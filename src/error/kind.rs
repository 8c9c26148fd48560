//! The error of this library: what it is, and what a program is to do about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::error::rpc::{Code, Status};
use spindle_protocol::{Expected, Seen};

use super::client::{code, is_answer, is_definite};
use super::term_end::TermEnd;
use crate::token::FencingToken;

/// The result of this library's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done.
///
/// Its text is for people and may change; the predicates tell a program what to do. Cheap to
/// clone.
///
/// ```
/// /// The HTTP status that answers a request which came to this error.
/// fn status(error: &spindle::Error) -> u16 {
///     match error {
///         error if error.is_fenced() => 409, // another instance leads
///         error if error.is_outcome_unknown() => 500, // look before you repeat it
///         error if error.is_retryable() => 503,
///         _ => 500,
///     }
/// }
/// # let refused = spindle::LockTable::new("d", "locktable").lock("job").build().unwrap_err();
/// # assert_eq!(status(&refused), 500);
/// ```
#[derive(Clone)]
pub struct Error(pub(super) Arc<Kind>);

#[derive(Debug)]
pub(crate) enum Kind {
    /// The caller asked for what can't work.
    Config(String),
    /// The term is not, or no longer, the one that holds the lock.
    Fenced { lock: String, token: FencingToken, end: TermEnd },
    /// The term, one of this process, has ended here; Spanner was not asked.
    Ended { lock: String, token: FencingToken, end: Option<TermEnd> },
    /// A system outside of the database has seen a later token.
    Stale { token: FencingToken, highest: FencingToken },
    /// No term is valid in this process.
    NotHeld { lock: String },
    /// The table in the database is not the one that the library needs.
    Schema(String),
    /// The session that the client holds exists no more, and the client never makes a new one. The
    /// `database` is that of a connection of the library's own; a client that was given has none.
    SessionLost { database: Option<String> },
    /// The runtime on which a connection was being made is gone, or the client panicked.
    Disconnected { database: String },
    /// Spanner refuses the caller.
    Denied { doing: String, source: google_cloud_spanner::Error },
    /// Spanner said no, or nothing; the request was not and will not be applied.
    Failed { doing: String, source: google_cloud_spanner::Error },
    /// Nobody knows whether the request was or will be applied.
    Unknown { doing: String, source: Option<google_cloud_spanner::Error> },
    /// No answer in time, and nothing was sent that could change anything.
    TimedOut { doing: String, limit: Duration },
    /// The lock, or a permit of the semaphore, was not to be had in time.
    NotAcquired { subject: String, limit: Duration, trouble: Option<Error> },
    /// The lock is somebody's, or will be: its row is not to be removed.
    NotVacant { lock: String, holding: String },
    /// Others made the row of the lock first, each time that it was to be seized.
    Overtaken { lock: String, limit: Duration },
    /// The row names another holder or has another token than the operator expects.
    OtherTerm { lock: String, expected: Expected, found: Option<Seen> },
    /// For a reason that another crate has.
    Other { text: String, source: TaskError },
    /// The code that ran under the lock panicked.
    Panicked { lock: String, message: String },
    /// The code that ran under the lock did not stop when it was told to, nor when it was aborted.
    Unstoppable { lock: String },
    /// Nothing answers on the client that was given, and nobody can replace it.
    DeadClient { lock: String, lasting: Duration, last: Error },
    /// No agent of this table listens, which would release should this process die.
    NoAgent { socket: String, why: String },
    /// The background loop ought to have run by now.
    Stalled { lock: String, overdue: Duration },
    /// The task that ran under the lock returned an error, reported no progress, or ended.
    Task { lock: String, what: String, source: Option<TaskError> },
    /// The background loop is gone without having said why: it panicked, or its runtime is gone.
    Abandoned { lock: String },
}

/// The error that a task returned.
pub type TaskError = Box<dyn std::error::Error + Send + Sync>;

impl Kind {
    fn is_fenced(&self) -> bool {
        matches!(
            self,
            Kind::Fenced { .. } | Kind::Ended { .. } | Kind::Stale { .. } | Kind::NotHeld { .. }
        )
    }

    /// Returns true if it says that the term `term` of the lock `of` is over.
    fn fences(&self, of: &str, term: FencingToken) -> bool {
        match self {
            Kind::Fenced { lock, token, .. } | Kind::Ended { lock, token, .. } => {
                lock == of && *token == term
            }
            Kind::Stale { token, .. } => *token == term,
            Kind::NotHeld { lock } => lock == of,
            _ => false,
        }
    }
}

/// What lies behind a fenced error, as its source. The text of the error says the rest.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no term goes on that would allow it")
    }
}

impl std::error::Error for Kind {}

/// Returns true if `error` or one of its causes [is fenced](Error::is_fenced). Its term is over, or
/// was never this lock's: nothing was written under it, and nothing more may be. Stop.
///
/// It finds an [`Error`] of this library in each error that has it for its source, however deep. It
/// finds one also in an error of Google's client, in a `Box<dyn Error>`, and in those of the crates
/// `anyhow` and `eyre`, with and without a context. An error that gives only the text of its cause
/// hides it.
///
/// ```
/// # fn refused() -> spindle::Error {
/// #     let mark = spindle::HighWaterMark::starting_at(spindle::FencingToken::from_nanoseconds(42));
/// #     mark.admit(spindle::FencingToken::from_nanoseconds(41)).unwrap_err()
/// # }
/// let error = anyhow::Error::from(refused()).context("bill the orders");
/// assert!(spindle::is_fenced(error.as_ref()));
/// ```
pub fn is_fenced(error: &(dyn std::error::Error + 'static)) -> bool {
    kinds_of(error).any(Kind::is_fenced)
}

/// Returns what `error` and its causes say, as far as they are errors of this library.
fn kinds_of<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a Kind> + use<'a> {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|error| match error.downcast_ref::<Error>() {
        Some(error) => Some(&*error.0),
        None => error.downcast_ref::<Kind>(),
    })
}

impl Error {
    pub(crate) fn new(kind: Kind) -> Error {
        Error(Arc::new(kind))
    }

    /// Returns an error that [`is_config`](Error::is_config), for crates that build on locks.
    pub fn config(message: impl Into<String>) -> Error {
        Error::new(Kind::Config(message.into()))
    }

    /// Returns the error of somebody whose time was over before he could ask, for crates that build on locks.
    pub fn timed_out(doing: impl Into<String>, limit: Duration) -> Error {
        Error::new(Kind::TimedOut { doing: doing.into(), limit })
    }

    /// Returns an error of this text, for crates that build on locks. Their predicates find the `reason` as
    /// its [`cause`](Error::cause).
    pub fn other(text: impl Into<String>, reason: impl Into<TaskError>) -> Error {
        Error::new(Kind::Other { text: text.into(), source: reason.into() })
    }

    /// Returns an error that [`is_unstoppable`](Error::is_unstoppable), for crates that build on locks.
    pub fn unstoppable(lock: impl Into<String>) -> Error {
        Error::new(Kind::Unstoppable { lock: lock.into() })
    }

    pub(crate) fn unknown(doing: String) -> Error {
        Error::new(Kind::Unknown { doing, source: None })
    }

    pub(crate) fn other_term(lock: String, expected: Expected, found: Option<Seen>) -> Error {
        Error::new(Kind::OtherTerm { lock, expected, found })
    }

    /// Sorts what the client said about a request that could not change anything.
    pub(crate) fn from_read(
        doing: impl Into<String>,
        source: google_cloud_spanner::Error,
    ) -> Error {
        let doing = doing.into();
        // A credential that can't be had just now says nothing of what it will be allowed.
        let no_credential = source.is_authentication() && !source.is_transient_and_before_rpc();
        match code(&source) {
            Some(Code::PermissionDenied | Code::Unauthenticated) => {
                Error::new(Kind::Denied { doing, source })
            }
            _ if no_credential => Error::new(Kind::Denied { doing, source }),
            _ => Error::new(Kind::Failed { doing, source }),
        }
    }

    /// Sorts what the client said about a request that could change something and was sent once.
    pub(crate) fn from_write(
        doing: impl Into<String>,
        source: google_cloud_spanner::Error,
    ) -> Error {
        if is_definite(&source) {
            Error::from_read(doing, source)
        } else {
            Error::new(Kind::Unknown { doing: doing.into(), source: Some(source) })
        }
    }

    /// Returns true if the term is over, or was never this lock's: nothing was written under it,
    /// and nothing more may be. Stop.
    ///
    /// [`is_fenced`](crate::is_fenced) looks for such an error inside an error of any type.
    pub fn is_fenced(&self) -> bool {
        self.0.is_fenced()
    }

    /// Returns true if the same call may succeed later, and repeating it does no harm.
    ///
    /// False for an unknown outcome, where repeating may do the work twice. False for a lost session
    /// of a client that was given: that client never makes a new one.
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Kind::Failed { source, .. } => !matches!(
                code(source),
                Some(
                    Code::InvalidArgument
                        | Code::FailedPrecondition
                        | Code::NotFound
                        | Code::AlreadyExists
                        | Code::OutOfRange
                        | Code::Unimplemented
                )
            ),
            Kind::TimedOut { .. }
            | Kind::NotAcquired { .. }
            | Kind::Overtaken { .. }
            | Kind::Disconnected { .. } => true,
            // The next call makes a new one.
            Kind::SessionLost { database } => database.is_some(),
            _ => false,
        }
    }

    /// Nobody knows whether the request was applied, or will be: look before doing it again.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(*self.0, Kind::Unknown { .. })
    }

    /// Returns true if the caller's time was over before it got the lock.
    pub fn is_not_acquired(&self) -> bool {
        matches!(*self.0, Kind::NotAcquired { .. })
    }

    /// Returns true if the lock is held, or reserved for somebody:
    /// [`remove`](crate::LockTable::remove) leaves its row alone.
    pub fn is_not_vacant(&self) -> bool {
        matches!(*self.0, Kind::NotVacant { .. })
    }

    /// Returns true if the lock is another's than an [`evict`](crate::LockTable::evict) expects: it has
    /// [another holder](crate::operate::Evict::if_holder) or [another
    /// token](crate::operate::Evict::if_token). Nothing was changed, and the text has both sides.
    pub fn is_other_term(&self) -> bool {
        matches!(*self.0, Kind::OtherTerm { .. })
    }

    /// Returns true if the code that ran under the lock panicked; the lock was released. The text
    /// has the panic's message.
    pub fn is_panic(&self) -> bool {
        matches!(*self.0, Kind::Panicked { .. })
    }

    /// Returns true if the code that ran under the lock could not be stopped and may still run: it
    /// blocks its thread. The lock was not released; its lease runs out.
    pub fn is_unstoppable(&self) -> bool {
        matches!(*self.0, Kind::Unstoppable { .. })
    }

    /// Returns true if the task of a [`lead`](crate::Spindle::lead) returned an error; the lock was
    /// released. [`cause`](Error::cause) finds that error by its type.
    pub fn is_task_failure(&self) -> bool {
        matches!(*self.0, Kind::Task { .. })
    }

    /// Returns true if `error` or one of its causes says that the term `token` of `lock` is over.
    pub(crate) fn is_of_lost_term(
        error: &(dyn std::error::Error + 'static),
        lock: &str,
        token: FencingToken,
    ) -> bool {
        kinds_of(error).any(|kind| kind.fences(lock, token))
    }

    /// Returns true if the caller asked for something that can't work. A repetition doesn't help;
    /// the text names the rule. A database that is not there counts, and a server that no lock can
    /// live on.
    pub fn is_config(&self) -> bool {
        matches!(*self.0, Kind::Config(_))
    }

    /// Returns true if the lock table isn't there or isn't as it should be; the text says what to
    /// change.
    pub fn is_schema(&self) -> bool {
        matches!(*self.0, Kind::Schema(_))
    }

    /// Returns true if the client's session is gone. Nothing was applied. A client that was given
    /// does not recover by itself: restart the process, or give the path of the database instead. The
    /// library makes a new session at the next call then, and the error
    /// [`is_retryable`](Error::is_retryable).
    pub fn is_session_lost(&self) -> bool {
        matches!(*self.0, Kind::SessionLost { .. })
    }

    /// Spanner refuses these credentials, or there are none.
    ///
    /// False while a credential can't be fetched for a passing reason: that is
    /// [`is_retryable`](Error::is_retryable).
    pub fn is_denied(&self) -> bool {
        matches!(*self.0, Kind::Denied { .. })
    }

    /// Returns the error of Google's client, where that is the reason.
    pub fn spanner(&self) -> Option<&google_cloud_spanner::Error> {
        match &*self.0 {
            Kind::Denied { source, .. } | Kind::Failed { source, .. } => Some(source),
            Kind::Unknown { source, .. } => source.as_ref(),
            _ => None,
        }
    }

    /// Returns true if a request on this client came to nothing, and a new client may be of use.
    pub(crate) fn is_silence(&self) -> bool {
        match *self.0 {
            Kind::TimedOut { .. } | Kind::SessionLost { .. } => true,
            Kind::Unknown { .. } | Kind::Failed { .. } | Kind::Denied { .. } => !self.is_answer(),
            _ => false,
        }
    }

    /// Returns true if Spanner said something, be it no: the connection works.
    pub(crate) fn is_answer(&self) -> bool {
        self.spanner().is_some_and(is_answer)
    }

    /// Returns true if another transaction may be why this one is gone, and nothing of it applied. Look again.
    pub fn is_interrupted(&self) -> bool {
        // Only the text tells a transaction that is gone from a row that is, and texts decide nothing.
        matches!(self.code(), Some(Code::Aborted | Code::NotFound | Code::FailedPrecondition))
            || matches!(*self.0, Kind::Overtaken { .. })
    }

    /// Returns true if a credential is the reason: none could be had, or Spanner refuses this one.
    pub(crate) fn is_of_credentials(&self) -> bool {
        let no_credential =
            self.spanner().is_some_and(google_cloud_spanner::Error::is_authentication);
        no_credential || self.code() == Some(Code::Unauthenticated)
    }

    /// Returns true if the client has no credential and won't fetch one again, or goes on with one that
    /// Spanner refuses: the time in which a machine is suspended makes no token older for it.
    pub(crate) fn is_dead_credentials(&self) -> bool {
        let is_refused = self.code() == Some(Code::Unauthenticated);
        let won_t_fetch = |error: &google_cloud_spanner::Error| {
            error.is_authentication() && !error.is_transient_and_before_rpc()
        };
        is_refused || self.spanner().is_some_and(won_t_fetch)
    }

    /// Returns the caller's own error: the one of type `E` among the causes of this one. An example
    /// is one that was given to [`give_up`](Error::give_up).
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref::<E>() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }

    /// Returns an error for the client that ends a transaction for a reason of the caller's own;
    /// nothing is written then.
    ///
    /// Out of a [fenced transaction](crate::FencedTransaction::run) it comes as an error in which
    /// [`cause`](Error::cause) finds the reason.
    ///
    /// ```
    /// # #[derive(Debug)] struct SoldOut;
    /// # impl std::fmt::Display for SoldOut {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "") }
    /// # }
    /// # impl std::error::Error for SoldOut {}
    /// use spindle::{Error, google_cloud_spanner as client};
    ///
    /// fn reserve(left: i64) -> client::Result<i64> {
    ///     if left == 0 { Err(Error::give_up(SoldOut)) } else { Ok(left - 1) }
    /// }
    /// # assert!(reserve(0).is_err());
    /// ```
    pub fn give_up(
        reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> google_cloud_spanner::Error {
        let reason = reason.into();
        let status =
            Status::default().set_code(Code::FailedPrecondition).set_message(reason.to_string());
        let given_up = Box::new(GivenUp(reason));
        google_cloud_spanner::Error::service_full(status, None, None, Some(given_up))
    }

    /// Returns true for an error that [`give_up`](Error::give_up) made.
    pub(crate) fn is_given_up(error: &google_cloud_spanner::Error) -> bool {
        std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<GivenUp>)
    }

    pub(crate) fn code(&self) -> Option<Code> {
        self.spanner().and_then(code)
    }
}

impl Error {
    /// Returns the error of this library inside an error of the client, if there is one.
    ///
    /// A [`Fence::check`](crate::Fence::check) that fails inside a transaction of the client's
    /// comes out of it so.
    pub fn extract(error: &google_cloud_spanner::Error) -> Option<&Error> {
        let source = std::error::Error::source(error)?;
        let source = source.downcast_ref::<GivenUp>().map_or(source, |given_up| &*given_up.0);
        if let Some(found) = source.downcast_ref::<Error>() {
            return Some(found);
        }
        source.downcast_ref::<google_cloud_spanner::Error>().and_then(Error::extract)
    }
}

/// The caller's own reason to end a transaction, whose text is nothing that Spanner said.
#[derive(Debug)]
struct GivenUp(TaskError);

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for GivenUp {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl From<Error> for google_cloud_spanner::Error {
    fn from(error: Error) -> google_cloud_spanner::Error {
        // An abort stays one, so that the client's own loop repeats the transaction.
        let code = error.code().unwrap_or(Code::FailedPrecondition);
        let status = Status::default().set_code(code).set_message(error.to_string());
        google_cloud_spanner::Error::service_full(status, None, None, Some(Box::new(error)))
    }
}

/// Takes an error of Google's client for one of this library, so that `?` does in a function that
/// returns [`spindle::Result`](Result). That is the error of requests: making a client has one of its own.
///
/// An error of this library inside comes out as it was. Of any other the request isn't known, which
/// may have been a commit. So an end that is not definite [leaves the outcome
/// unknown](Error::is_outcome_unknown). [`spanner`](Error::spanner) gives the client's error back.
impl From<google_cloud_spanner::Error> for Error {
    fn from(error: google_cloud_spanner::Error) -> Error {
        match Error::extract(&error) {
            Some(ours) => ours.clone(),
            None => Error::from_write("request", error),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = format!("{:?}", self.0);
        let kind = kind.split([' ', '(', '{']).next().unwrap_or_default();
        write!(f, "Error({kind}: {self})")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Kind::Task { source: Some(source), .. } | Kind::Other { source, .. } => Some(&**source),
            // An error that is wrapped may hide its own type. It never hides that of its source.
            fenced if fenced.is_fenced() => Some(fenced),
            _ => self.spanner().map(|source| source as _),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use google_cloud_gax::error::CredentialsError;

    use super::*;
    use crate::error::client::tests::service;

    pub(in crate::error) fn no_credential(is_transient: bool) -> Error {
        let error = CredentialsError::from_msg(is_transient, "no token");
        Error::from_read("connect", google_cloud_spanner::Error::authentication(error))
    }

    #[test]
    fn a_write_is_refused_for_certain_or_its_outcome_is_unknown() {
        use Code::*;
        for code in [Aborted, AlreadyExists, NotFound, FailedPrecondition, PermissionDenied] {
            assert!(!Error::from_write("commit", service(code)).is_outcome_unknown(), "{code}");
        }
        for code in [Unavailable, DeadlineExceeded, Cancelled, Unknown, Internal, ResourceExhausted]
        {
            assert!(Error::from_write("commit", service(code)).is_outcome_unknown(), "{code}");
        }
        let timeout = google_cloud_spanner::Error::timeout("slow");
        assert!(Error::from_write("commit", timeout).is_outcome_unknown());
    }

    #[test]
    fn a_credential_that_cannot_be_had_just_now_is_no_refusal() {
        let (passing, lasting) = (no_credential(true), no_credential(false));
        assert!(passing.is_retryable() && !passing.is_denied());
        assert!(lasting.is_denied() && !lasting.is_retryable());
        let unsent =
            google_cloud_spanner::Error::authentication(CredentialsError::from_msg(true, ""));
        let unsent = Error::from_write("commit", unsent);
        assert!(unsent.is_retryable() && !unsent.is_outcome_unknown(), "it was never sent");
    }

    /// Errors hide their own type in different ways: each as `?` makes it.
    #[test]
    fn a_lost_fence_is_found_in_errors_of_every_type() {
        type Boxed = Box<dyn std::error::Error + Send + Sync>;
        fn refused() -> Error {
            let (lock, token) = ("jobs".to_string(), FencingToken::from_nanoseconds(41));
            Error::new(Kind::Fenced { lock, token, end: TermEnd::OutOfContact { contact: None } })
        }
        let through_the_client = google_cloud_spanner::Error::from(refused());
        let errors: [(&str, Boxed); 9] = [
            ("our own", refused().into()),
            ("one of the client", through_the_client.into()),
            ("one of i/o", std::io::Error::other(refused()).into()),
            ("anyhow", anyhow::Error::from(refused()).into()),
            ("anyhow with a context", anyhow::Error::from(refused()).context("bill").into()),
            ("anyhow of a box", anyhow::Error::from_boxed(refused().into()).into()),
            ("eyre", eyre::Report::from(refused()).into()),
            ("eyre with a context", eyre::Report::from(refused()).wrap_err("bill").into()),
            ("anyhow of i/o", anyhow::Error::from(std::io::Error::other(refused())).into()),
        ];
        let (ours, other) = ([41, 42].map(FencingToken::from_nanoseconds)).into();
        for (kind, error) in errors {
            assert!(is_fenced(&*error), "{kind}");
            assert!(Error::is_of_lost_term(&*error, "jobs", ours), "{kind}");
            assert!(!Error::is_of_lost_term(&*error, "jobs", other), "{kind}: another term");
            assert!(!Error::is_of_lost_term(&*error, "mail", ours), "{kind}: another lock");
        }
        let unfenced = anyhow::Error::from(no_credential(true)).context("bill");
        assert!(!is_fenced(unfenced.as_ref()));
    }

    #[test]
    fn an_error_of_the_client_becomes_ours_and_what_was_ours_comes_out_as_it_was() {
        fn reads() -> Result<()> {
            Err(service(Code::Unavailable))?
        }
        let unknown = reads().unwrap_err();
        assert!(unknown.is_outcome_unknown() && unknown.spanner().is_some(), "{unknown}");
        assert!(Error::from(service(Code::PermissionDenied)).is_denied());
        let stale = Kind::NotHeld { lock: "jobs".into() };
        let back = Error::from(google_cloud_spanner::Error::from(Error::new(stale)));
        assert!(back.is_fenced(), "{back}");
        let given_up = Error::from(Error::give_up(std::fmt::Error));
        assert!(given_up.cause::<std::fmt::Error>().is_some(), "{given_up}");
    }

    #[test]
    fn a_wrapped_status_is_found() {
        let wrapped = google_cloud_spanner::Error::exhausted(service(Code::Aborted));
        assert_eq!(code(&wrapped), Some(Code::Aborted));
        assert!(!Error::from_write("commit", wrapped).is_outcome_unknown());
    }
}
