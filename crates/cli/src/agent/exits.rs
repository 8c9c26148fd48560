//! Releases the locks of a process that is known to be gone.
//!
//! Its pidfd says that all its threads have ended, and the end of file that nobody keeps its connection: a child
//! that works on may have that one. Only both together count. The terms are released that carry the nonces of its
//! instances, unless they are younger than their leases.

use std::time::Duration;

use axum::response::sse::Event;
use spindle::operate::{AtExit, ExitedInstance};
use spindle_protocol::LEASE_MAX;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::claims::Claims;
use crate::serve::peer::Exit;

/// After so long the rows are read again, for a commit that was still in a socket.
const AGAIN: Duration = Duration::from_secs(2);

/// The longest pause between two tries, where Spanner doesn't answer.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Releases what these instances hold, which the process behind a client had for its own.
///
/// It tries until each row is released, or its lease has run out.
pub async fn release(claims: &Claims, pid: u32, mut left: Vec<ExitedInstance>) {
    let (gone, mut pause, mut is_first) = (Instant::now(), AGAIN, true);
    let (mut released, mut lapses) = (0_u64, 0_u64);
    while !left.is_empty() && gone.elapsed() < LEASE_MAX {
        let mut unsettled = Vec::new();
        let outcomes = claims.table.release_exited(&left).await;
        for (instance, outcome) in left.into_iter().zip(outcomes) {
            let lock = &instance.lock;
            match outcome {
                AtExit::Released(token) => {
                    released += 1;
                    tracing::info!(lock, %token, pid, "lock released: its process has exited");
                }
                AtExit::Lapses(token) => {
                    lapses += 1;
                    tracing::info!(lock, %token, pid, "its process has exited within a lease of its begin: the lease runs out");
                }
                // A commit that it sent may come yet.
                AtExit::HasNone if is_first => unsettled.push(instance),
                AtExit::HasNone => {}
                AtExit::Unknown(error) => {
                    if is_first {
                        tracing::warn!(lock, pid, %error, "can't release yet for a process that has exited");
                    }
                    unsettled.push(instance);
                }
            }
        }
        if released + lapses > 0 {
            tracing::warn!(
                pid,
                reason = "exited",
                released,
                lapses,
                "a process has exited and did not let go"
            );
            claims.counted(|counts| {
                counts.exited += released;
                counts.lapsed += lapses;
            });
            (released, lapses) = (0, 0);
        }
        left = unsettled;
        if !left.is_empty() {
            sleep(pause).await;
        }
        (pause, is_first) = ((pause * 2).min(PAUSE_MAX), false);
    }
}

/// The client of a claim, whose exit counts as letting go.
#[derive(Clone, Debug)]
pub struct Client {
    pub exit: Exit,
    pub pid: u32,
    /// Its locks run out within so long, once they are renewed no more.
    pub lease: Duration,
}

impl Client {
    /// Waits for the rest of what says that the client is gone, and releases then; false if that isn't said within
    /// its lease.
    pub async fn is_gone(
        &self,
        claims: &Claims,
        events: Option<mpsc::Sender<Event>>,
        instance: Option<ExitedInstance>,
    ) -> bool {
        let (Some(events), Some(instance)) = (events, instance) else { return false };
        let both = async {
            self.exit.exited().await;
            events.closed().await;
        };
        if timeout(self.lease, both).await.is_err() {
            return false;
        }
        release(claims, self.pid, vec![instance]).await;
        true
    }
}
