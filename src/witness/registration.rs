//! The instances of this process, as the agent is told of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::speaker::{Instance, Order, Place, Speaker};
use crate::term::AgentTrouble;

/// An attempt to begin a term waits for its registration so long. After that it leaves unregistered.
const REGISTER_LIMIT: Duration = Duration::from_millis(50);

/// This process's one stream to the agent of a place.
#[derive(Debug)]
pub(crate) struct Witness {
    orders: mpsc::UnboundedSender<Order>,
    trouble: AgentTrouble,
}

impl Witness {
    /// Returns the stream of this process, which starts if there is none. It ends with its last instance.
    pub(crate) fn of(place: &Place) -> Arc<Witness> {
        /// By the process: a child by `fork` has a copy of its parent's, and no thread behind it.
        type Streams = HashMap<(u32, Place), Weak<Witness>>;
        static STREAMS: OnceLock<Mutex<Streams>> = OnceLock::new();
        let streams = STREAMS.get_or_init(Mutex::default);
        let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|_, witness| witness.strong_count() > 0);
        let key = (std::process::id(), place.clone());
        if let Some(witness) = streams.get(&key).and_then(Weak::upgrade) {
            return witness;
        }
        let witness = Arc::new(Witness::start(place.clone()));
        streams.insert(key, Arc::downgrade(&witness));
        witness
    }

    /// On a thread of its own, since the stream must outlive each runtime of the service: its end says that the
    /// process is gone.
    fn start(place: Place) -> Witness {
        let (orders, ordered) = mpsc::unbounded_channel();
        let trouble = AgentTrouble::default();
        let speaker = Speaker { place, trouble: Arc::clone(&trouble) };
        let thread = std::thread::Builder::new().name("spindle-witness".to_string());
        let speaks = speaker.clone();
        if let Err(error) = thread.spawn(move || speak(&speaks, ordered)) {
            speaker.failed(&format!("no thread: {error}"));
        }
        Witness { orders, trouble }
    }
}

/// One instance, as the agent is told of it.
#[derive(Debug)]
pub(crate) struct Registration {
    witness: Arc<Witness>,
    lock: Arc<str>,
    nonce: OnceLock<u64>,
}

impl Registration {
    pub(crate) fn new(witness: Arc<Witness>, lock: Arc<str>) -> Registration {
        Registration { witness, lock, nonce: OnceLock::new() }
    }

    /// Registers the instance before its first attempt leaves; nothing for those after it.
    ///
    /// The attempt waits for the future: no commit of it comes before its registration, unless that takes too long.
    pub(crate) fn begins(
        &self,
        nonce: u64,
        limit: Duration,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.nonce.set(nonce).ok()?;
        let (said, heard) = oneshot::channel();
        let order = Order::Begins { instance: self.instance(nonce), said };
        self.witness.orders.send(order).ok()?;
        Some(async move {
            // It may be said later all the same, or again to the next agent.
            let _ = timeout(limit.min(REGISTER_LIMIT), heard).await;
        })
    }

    /// Returns what keeps the agent from releasing, as of now.
    pub(crate) fn trouble(&self) -> AgentTrouble {
        Arc::clone(&self.witness.trouble)
    }

    /// Says that the instance is gone. One whose loop is dropped with its runtime stays registered: it may hold.
    pub(crate) fn is_over(&self) {
        if let Some(nonce) = self.nonce.get() {
            // Without a thread nothing was registered.
            let _ = self.witness.orders.send(Order::Over { instance: self.instance(*nonce) });
        }
    }

    fn instance(&self, nonce: u64) -> Instance {
        Instance { lock: Arc::clone(&self.lock), nonce }
    }
}
fn speak(speaker: &Speaker, orders: mpsc::UnboundedReceiver<Order>) {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(super::stream::speak(speaker, orders)),
        Err(error) => speaker.failed(&format!("no runtime: {error}")),
    }
}
