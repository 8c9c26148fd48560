//! Faults on demand.
//!
//! A [`Fault`] says which requests it meets and what it does to them. The first fault, in the order
//! they were injected, that meets a request decides what happens to it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use googleapis_tonic_google_spanner_v1::google::spanner::v1::TransactionOptions;

use crate::engine::Code;
use crate::random::Random;
use crate::rpc::Rpc;

/// The effect on a request that a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is held up before it is applied.
    Delay(Duration),
    /// It waits for its turn, and is then held up: of the requests that this meets, one at a time is
    /// served. An overloaded server behaves so.
    Queue(Duration),
    /// It is applied at once, and its reply held up.
    DelayReply(Duration),
    /// It is refused with this code, and not applied.
    Fail(Code),
    /// It is applied, and answered with this code all the same.
    FailAfterApplying(Code),
    /// It is applied, and the connection breaks before the reply.
    LoseReply,
    /// It is answered UNAVAILABLE at once, and applied some time later although its sender has
    /// given up.
    ApplyLate {
        /// How much later.
        after: Duration,
    },
    /// The connection breaks, and it is not applied. Other requests on the connection break too.
    DropConnection,
    /// It is not applied and never answered.
    Stall,
    /// It is applied and never answered.
    StallReply,
    /// It is answered ABORTED, and its transaction, if it names one, has lost as to an older one. One
    /// that has committed is answered as without a fault.
    Abort,
    /// It is applied, and the read timestamp that it asks for is left out of the reply.
    HideReadTimestamp,
    /// It is applied. If it begins a transaction, the read-write transaction that its session began
    /// last is gone, as with Google's emulator.
    EndEarlier,
}

/// The requests that a fault meets, and its effect.
///
/// ```
/// use spindle_emulator::{Effect, Fault, Rpc};
///
/// // The second commit that writes the row "billing" of `locktable` is applied, but nobody hears.
/// let fault = Fault::on(Rpc::Commit)
///     .table("locktable")
///     .key("billing")
///     .skip(1)
///     .times(1)
///     .effect(Effect::LoseReply);
/// # let _ = fault;
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) rpc: Option<Rpc>,
    pub(crate) statements: bool,
    pub(crate) session: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) skip: u64,
    pub(crate) times: Option<u64>,
    /// With the seed of its sequence.
    pub(crate) probability: Option<(f64, u64)>,
    pub(crate) effect: Effect,
}

impl Fault {
    /// Returns a fault that meets every request of this method. It fails them with UNAVAILABLE
    /// unless [`Fault::effect`] says something else.
    pub fn on(rpc: Rpc) -> Fault {
        Fault { rpc: Some(rpc), ..Fault::any() }
    }

    /// Returns a fault that meets every statement, by whichever method it comes: `ExecuteSql`,
    /// `ExecuteStreamingSql` or `ExecuteBatchDml`. As [`Fault::on`] otherwise.
    pub fn on_statements() -> Fault {
        Fault { statements: true, ..Fault::any() }
    }

    /// Returns a fault that meets every request.
    pub fn any() -> Fault {
        Fault {
            rpc: None,
            statements: false,
            session: None,
            tag: None,
            table: None,
            key: None,
            skip: 0,
            times: None,
            probability: None,
            effect: Effect::Fail(Code::Unavailable),
        }
    }

    /// Only requests of the session with this full name.
    #[must_use]
    pub fn session(mut self, name: impl Into<String>) -> Fault {
        self.session = Some(name.into());
        self
    }

    /// Only requests with this transaction tag or request tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Fault {
        self.tag = Some(tag.into());
        self
    }

    /// Only requests that name this table: reads of it, statements whose text has its name as a word,
    /// and commits that write a row of it, by a mutation or by what statements of theirs wrote.
    #[must_use]
    pub fn table(mut self, name: impl Into<String>) -> Fault {
        self.table = Some(name.into());
        self
    }

    /// Meets only reads that name a row whose key begins with this value, and commits that write one.
    /// The value has the form it has on the wire (for an INT64 its decimal digits). Ranges and
    /// statements name no row.
    #[must_use]
    pub fn key(mut self, first_part: impl Into<String>) -> Fault {
        self.key = Some(first_part.into());
        self
    }

    /// Lets the first `count` of the requests that it would meet pass.
    #[must_use]
    pub fn skip(mut self, count: u64) -> Fault {
        self.skip = count;
        self
    }

    /// Is over after it has met `count` requests.
    #[must_use]
    pub fn times(mut self, count: u64) -> Fault {
        self.times = Some(count);
        self
    }

    /// Meets each request with this probability, by a sequence of numbers that the seed determines.
    #[must_use]
    pub fn probability(mut self, probability: f64, seed: u64) -> Fault {
        self.probability = Some((probability, seed));
        self
    }

    /// Sets the effect on the requests it meets.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Fault {
        self.effect = effect;
        self
    }

    /// Returns why no request can meet it, if none can.
    pub(crate) fn gap(&self) -> Option<&'static str> {
        // Of requests of any method, those that name most.
        let any = if self.statements { Rpc::ExecuteSql } else { Rpc::Commit };
        let rpc = self.rpc.unwrap_or(any);
        let names_rows =
            matches!(rpc, Rpc::Read | Rpc::StreamingRead | Rpc::BeginTransaction | Rpc::Commit);
        let has_options = names_rows || rpc.is_statement();
        let gaps = [
            (self.times == Some(0), "it is over before the first"),
            (self.statements && !rpc.is_statement(), "such a request runs no statement"),
            (self.key.is_some() && !names_rows, "such a request names no row"),
            (self.table.is_some() && !has_options, "such a request names no table"),
            (self.tag.is_some() && !has_options, "such a request has no tag"),
            (
                self.session.is_some() && !has_options && rpc != Rpc::Rollback,
                "such a request has no session",
            ),
        ];
        gaps.into_iter().find_map(|(is_there, reason)| is_there.then_some(reason))
    }
}

/// A fault that was injected.
///
/// It stays active when this is dropped; only [`FaultHandle::remove`] ends it early.
#[derive(Clone, Debug)]
pub struct FaultHandle {
    id: u64,
    hits: Arc<AtomicU64>,
    faults: Faults,
}

impl FaultHandle {
    /// Returns the number by which the control service knows it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns how many requests it has met.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::SeqCst)
    }

    /// Ends it. Requests that it has met keep their outcome.
    pub fn remove(&self) {
        self.faults.remove(self.id);
    }
}

/// The server's knowledge about a request's database.
pub(crate) trait Known {
    /// Returns the name of a table's first key column.
    fn key_column(&self, table: &str) -> Option<String>;
    /// Returns true if statements of a transaction have written a row of this table whose key begins
    /// with `key`; without one or the other, of any.
    fn has_written(&self, transaction: &[u8], table: Option<&str>, key: Option<&str>) -> bool;
}

/// The things that a request names, of those that a fault asks for.
#[derive(Default)]
pub(crate) struct Named<'r> {
    pub session: Option<&'r str>,
    /// The tag of its transaction and its own; empty without one.
    pub tags: [&'r str; 2],
    /// The id of the transaction.
    pub transaction: Option<&'r [u8]>,
    /// True if it begins a transaction of several requests.
    pub begins: bool,
}

/// The questions that a fault can ask about a request.
pub(crate) trait Selectable {
    fn named(&self) -> Named<'_> {
        Named::default()
    }
    /// Returns how it begins a transaction, if it does.
    fn options(&mut self) -> Option<&mut TransactionOptions> {
        None
    }
    /// Returns true if it names this table, and a row of it whose key begins with `key` if that is
    /// asked.
    fn names(&self, _table: Option<&str>, _key: Option<&str>, _known: &dyn Known) -> bool {
        false
    }
}

/// The faults of a server.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<Injected>>);

#[derive(Default)]
struct Injected {
    active: Vec<Active>,
    /// Those of every fault there has been, by its number less one.
    hits: Vec<Arc<AtomicU64>>,
}

struct Active {
    id: u64,
    fault: Fault,
    random: Random,
    hits: Arc<AtomicU64>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("active", &self.injected().active.len()).finish()
    }
}

impl Faults {
    /// Makes a fault active.
    pub fn inject(&self, fault: Fault) -> FaultHandle {
        let mut injected = self.injected();
        let hits = Arc::new(AtomicU64::new(0));
        injected.hits.push(Arc::clone(&hits));
        let id = injected.hits.len() as u64;
        let random = Random(fault.probability.map_or(0, |(_, seed)| seed));
        injected.active.push(Active { id, fault, random, hits: Arc::clone(&hits) });
        FaultHandle { id, hits, faults: self.clone() }
    }

    /// Returns how many requests a fault has met, if there is or was one of this number.
    pub fn hits(&self, id: u64) -> Option<u64> {
        let injected = self.injected();
        let at = usize::try_from(id.checked_sub(1)?).ok()?;
        injected.hits.get(at).map(|hits| hits.load(Ordering::SeqCst))
    }

    /// Returns the faults that are active, in the order of their injection, with how many requests each has met.
    pub fn active(&self) -> Vec<(u64, Fault, u64)> {
        let injected = self.injected();
        let active = injected.active.iter();
        active.map(|it| (it.id, it.fault.clone(), it.hits.load(Ordering::SeqCst))).collect()
    }

    /// Ends a fault. It returns true if the fault was active.
    pub fn remove(&self, id: u64) -> bool {
        let mut injected = self.injected();
        let before = injected.active.len();
        injected.active.retain(|active| active.id != id);
        injected.active.len() < before
    }

    /// Ends every fault.
    pub fn clear(&self) {
        self.injected().active.clear();
    }

    /// Returns what happens to a request.
    pub fn meet(&self, rpc: Rpc, request: &dyn Selectable, known: &dyn Known) -> Option<Effect> {
        let mut injected = self.injected();
        let met = injected
            .active
            .iter_mut()
            .find_map(|active| active.meets(rpc, request, known).then_some(active))?;
        met.hits.fetch_add(1, Ordering::SeqCst);
        let effect = met.fault.effect;
        injected.active.retain(|active| active.fault.times != Some(0));
        Some(effect)
    }

    fn injected(&self) -> MutexGuard<'_, Injected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn meets(&mut self, rpc: Rpc, request: &dyn Selectable, known: &dyn Known) -> bool {
        let fault = &mut self.fault;
        let Named { session, tags, .. } = request.named();
        let selects = fault.rpc.is_none_or(|selected| selected == rpc)
            && (!fault.statements || rpc.is_statement())
            && fault.session.as_deref().is_none_or(|name| session == Some(name))
            && fault.tag.as_deref().is_none_or(|tag| tags.contains(&tag))
            && (fault.table.is_none() && fault.key.is_none()
                || request.names(fault.table.as_deref(), fault.key.as_deref(), known));
        if !selects || fault.times == Some(0) {
            return false;
        }
        if fault.probability.is_some_and(|(probability, _)| self.random.fraction() >= probability) {
            return false;
        }
        if fault.skip > 0 {
            fault.skip -= 1;
            return false;
        }
        if let Some(times) = &mut fault.times {
            *times -= 1;
        }
        true
    }
}
