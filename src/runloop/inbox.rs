//! The way from a lock's handles to its loop: as small as it can be, since there is one for each.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Hands commands over. The inbox ends with the last strong reference to it.
pub(crate) struct Outbox<T>(Arc<Queue<T>>);

/// Where the loop finds them.
pub(crate) struct Inbox<T>(Arc<Queue<T>>);

struct Queue<T>(Mutex<State<T>>);

struct State<T> {
    commands: VecDeque<T>,
    waker: Option<Waker>,
    is_outbox_gone: bool,
    is_inbox_gone: bool,
}

impl<T> Inbox<T> {
    /// Returns an inbox, and the way into it.
    pub(crate) fn new() -> (Arc<Outbox<T>>, Inbox<T>) {
        let queue = Arc::new(Queue(Mutex::new(State {
            commands: VecDeque::new(),
            waker: None,
            is_outbox_gone: false,
            is_inbox_gone: false,
        })));
        (Arc::new(Outbox(Arc::clone(&queue))), Inbox(queue))
    }

    /// Returns the next command; none once nobody is left to send one. Cancellation safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|context| {
            let mut state = self.0.state();
            if let Some(command) = state.commands.pop_front() {
                return Poll::Ready(Some(command));
            }
            if state.is_outbox_gone {
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<T> fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("waiting", &self.0.state().commands.len()).finish()
    }
}

impl<T> Outbox<T> {
    /// Hands a command over; false if no loop is left.
    pub(crate) fn send(&self, command: T) -> bool {
        let waker = {
            let mut state = self.0.state();
            if state.is_inbox_gone {
                return false;
            }
            state.commands.push_back(command);
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        true
    }
}

impl<T> Queue<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that is done under it can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.state();
            state.is_outbox_gone = true;
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let (commands, waker) = {
            let mut state = self.0.state();
            state.is_inbox_gone = true;
            (std::mem::take(&mut state.commands), state.waker.take())
        };
        // Those who wait for an answer are told when their commands are dropped.
        drop((commands, waker));
    }
}
