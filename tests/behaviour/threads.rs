//! Tasks that block their threads, and futures that must not wait.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};

use spindle::Term;

/// A task that blocks its thread until it is let go.
#[derive(Clone)]
pub struct Blocking {
    begun: Arc<AtomicUsize>,
    blocks: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Blocking {
    pub fn new() -> (Blocking, mpsc::Sender<()>) {
        let (let_go, blocks) = mpsc::channel();
        (Blocking { begun: Arc::default(), blocks: Arc::new(blocks.into()) }, let_go)
    }

    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// The first task blocks; later ones wait to be cancelled.
    pub async fn work(self, term: Term) {
        if self.begun.fetch_add(1, Ordering::SeqCst) == 0 {
            // It ends by an error, too, when the test is over.
            let _ = self.blocks.lock().unwrap().recv();
        } else {
            term.cancelled().await;
        }
    }
}

/// Runs a test on real time and real threads: a blocked thread stops a virtual clock, too.
pub fn on_real_threads(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build();
    runtime.unwrap().block_on(test);
}

/// Returns what a future gives that is ready at its first poll.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}
