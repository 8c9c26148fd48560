//! One lock's row, as the loop reaches it: through a carrier.

use std::future::ready;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use spindle_protocol::{Act, Answer, Change, Holder, Rejection};
use tokio::time::Instant;

use super::role::{Part, ReaderRow, Role};
use crate::carrier::{Load, Seat, Step};
use crate::chance;
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::spanner::{Need, Table};

/// An act under way, and then how it ended.
pub(crate) type UnderWay = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Carries out the protocol's acts.
pub(crate) trait LockRow: Send + Sync + 'static {
    /// Carries out one act, sent once, in not much more than `limit`.
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay;

    /// In which step to act, together with the other locks that share a carrier.
    fn step(&self) -> Step;

    /// Returns true if the row, when it was last looked at, said that it was seized.
    fn saw_seizure(&self) -> bool;
}

/// One lock's row, as a carrier reaches it.
pub(crate) struct CarriedRow(pub(crate) Arc<Carried>);

pub(crate) struct Carried {
    pub(crate) seat: Seat,
    /// The table that may lack columns; none in the simulation, where it lacks none.
    pub(crate) table: Option<Arc<Table>>,
    pub(crate) holder: Holder,
    /// The mark that the next release leaves in the row, besides the successor.
    pub(crate) parting_info: Arc<Mutex<Option<String>>>,
    pub(crate) told: Told,
    /// True if the last poll read the row's lease.
    pub(crate) saw_lease: Arc<AtomicBool>,
    /// True if that row said that it was seized.
    pub(crate) saw_seizure: Arc<AtomicBool>,
    pub(crate) role: Role,
}

impl CarriedRow {
    /// Returns the row of the lock of these settings, in the carrier of this runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(
        table: &Arc<Table>,
        settings: &Settings,
        part: Part,
        parting_info: Arc<Mutex<Option<String>>>,
    ) -> CarriedRow {
        let role = part.seated(table, &table.carriers);
        let seat = table.carriers.seat(table, Arc::clone(&settings.name), chance::random());
        if settings.is_repeat {
            seat.repeats();
        }
        CarriedRow(Arc::new(Carried {
            seat,
            table: Some(Arc::clone(table)),
            holder: Holder { lease: settings.timing.lease, info: settings.info.clone() },
            parting_info,
            told: Told::default(),
            saw_lease: Arc::default(),
            saw_seizure: Arc::default(),
            role,
        }))
    }
}

impl LockRow for CarriedRow {
    /// Each kind of act has a future of its own: thousands may be under way at once, and none keeps
    /// room for what another needs.
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay {
        let row = &self.0;
        match (row.change(&act), act, &row.role) {
            (Some(change), ..) if begins(&change) => {
                Box::pin(Arc::clone(row).begin(Box::new(change), limit))
            }
            (Some(change), ..) => Box::pin(row.keep(change, limit)),
            // Readers leave no takeover rows.
            (None, Act::Sweep { .. }, Role::Reader(_)) => {
                Box::pin(ready(Outcome { answer: Answer::Swept { all: true }, error: None }))
            }
            (None, Act::Sweep { before }, _) => Box::pin(row.seat.send(Load::Sweep(before), limit)),
            (None, _, Role::Reader(reader)) => Box::pin(row.observe_both(reader, limit)),
            (None, ..) => Box::pin(row.seat.send(row.observation(&row.saw_lease), limit)),
        }
    }

    fn step(&self) -> Step {
        self.0.seat.step()
    }

    fn saw_seizure(&self) -> bool {
        self.0.saw_seizure.load(Ordering::Relaxed)
    }
}

impl Carried {
    /// Returns the change that an act asks for; none for one that changes nothing.
    fn change(&self, act: &Act) -> Option<Change> {
        let info = self.parting_info.lock().unwrap_or_else(PoisonError::into_inner);
        self.role.change(act, &self.holder, info.as_deref())
    }

    fn observation(&self, saw_lease: &Arc<AtomicBool>) -> Load {
        let (saw_lease, saw_seizure) = (Arc::clone(saw_lease), Arc::clone(&self.saw_seizure));
        Load::Observe { saw_lease, saw_seizure }
    }

    /// Polls a reader's own row and the writers', which travel together.
    fn observe_both(
        self: &Arc<Self>,
        reader: &ReaderRow,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let own = self.seat.send(self.observation(&self.saw_lease), limit);
        let gate = reader.gate.send(self.observation(&reader.saw_lease), limit);
        let row = Arc::clone(self);
        async move {
            match (tokio::join!(own, gate), &row.role) {
                (
                    (
                        Outcome { answer: Answer::Observed(own), .. },
                        Outcome { answer: Answer::Observed(gate), .. },
                    ),
                    Role::Reader(reader),
                ) => {
                    let observation = reader.view().observed(own, gate);
                    Outcome { answer: Answer::Observed(observation), error: None }
                }
                ((failed @ Outcome { error: Some(_), .. }, _) | (_, failed), _) => failed,
            }
        }
    }

    async fn begin(self: Arc<Self>, change: Box<Change>, limit: Duration) -> Outcome {
        let asked = Instant::now();
        if let Err(outcome) = self.confirm(&change, limit).await {
            return outcome;
        }
        // Known before the answer is: an attempt whose outcome is unknown may have been ours.
        self.told.set(self.tells());
        let limit = limit.saturating_sub(asked.elapsed());
        self.seat.send(Load::Change(*change), limit).await
    }

    /// Prolongs or ends a term.
    fn keep(
        self: &Arc<Self>,
        mut change: Change,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let tells = self.tells();
        let mut is_heartbeat = false;
        if let Change::Heartbeat { holder, .. } | Change::KeepWriting { holder, .. } = &mut change {
            is_heartbeat = true;
            if self.told.get() != tells {
                *holder = Some(self.holder.clone());
            }
        }
        let row = Arc::clone(self);
        self.seat.send(Load::Change(change), limit).map(move |outcome| {
            if is_heartbeat && matches!(outcome.answer, Answer::Applied { .. }) {
                row.told.set(tells);
            }
            outcome
        })
    }

    /// Returns which optional columns a row is written with now.
    fn tells(&self) -> (bool, bool) {
        self.table.as_ref().map_or((true, true), |table| table.optional.known())
    }

    /// Refuses to begin while a column may be wrongly thought missing. Refuses to take over from a
    /// row whose lease was not read although there may be one (I1).
    async fn confirm(&self, change: &Change, limit: Duration) -> Result<(), Outcome> {
        let Some(table) = &self.table else { return Ok(()) };
        // Boxed: it is seldom under way, and thousands of beginnings would keep room for it.
        let ready = Box::pin(table.knows(Need::Begin, limit)).await;
        ready.map_err(|error| Outcome::failed(Answer::NotApplied, error))?;
        let saw_lease = match (change, &self.role) {
            (Change::BeginRead { .. }, Role::Reader(reader)) => {
                self.saw_lease.load(Ordering::Relaxed) && reader.saw_lease.load(Ordering::Relaxed)
            }
            _ => self.saw_lease.load(Ordering::Relaxed),
        };
        let displaces = matches!(change, Change::Takeover { .. } | Change::BeginRead { .. });
        if displaces && table.optional.has_lease() && !saw_lease {
            let answer = Answer::Rejected(Rejection::Changed(None));
            return Err(Outcome { answer, error: None });
        }
        Ok(())
    }
}

fn begins(change: &Change) -> bool {
    matches!(change, Change::Insert { .. } | Change::Takeover { .. } | Change::BeginRead { .. })
}

/// The optional columns that the row of the present term was written with.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<(bool, bool)>);

impl Told {
    fn set(&self, columns: (bool, bool)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = columns;
    }

    fn get(&self) -> (bool, bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
