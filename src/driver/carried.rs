//! One lock's row, as the loop reaches it: through a carrier.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::{Act, Answer, Change, Holder, Rejection};
use tokio::time::Instant;

use super::role::{Part, Role};
use crate::carrier::{Load, Seat, Step};
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::spanner::{Need, Table};

/// Carries out the protocol's acts.
pub(crate) trait LockRow: Send + Sync + 'static {
    /// Carries out one act, sent once, in not much more than `limit`.
    fn carry_out(
        &self,
        act: Act,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static;

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
        let seat = table.carriers.seat(table, Arc::clone(&settings.name), rand::random());
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
    fn carry_out(
        &self,
        act: Act,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let row = Arc::clone(&self.0);
        async move {
            let info = row.parting_info.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match (row.role.change(&act, &row.holder, info.as_deref()), act) {
                (Some(change), _) => row.carry_out(change, limit).await,
                (None, Act::Sweep { before }) => match &row.role {
                    // Readers leave no takeover rows.
                    Role::Reader(_) => Outcome { answer: Answer::Swept { all: true }, error: None },
                    _ => row.seat.send(Load::Sweep(before), limit).await,
                },
                (None, _) => row.observe(limit).await,
            }
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
    /// Polls. A reader's own row and the writers' travel together.
    async fn observe(&self, limit: Duration) -> Outcome {
        let observation = |saw_lease: &Arc<AtomicBool>| Load::Observe {
            saw_lease: Arc::clone(saw_lease),
            saw_seizure: Arc::clone(&self.saw_seizure),
        };
        let own = self.seat.send(observation(&self.saw_lease), limit);
        let Role::Reader(reader) = &self.role else { return own.await };
        let gate = reader.gate.send(observation(&reader.saw_lease), limit);
        match tokio::join!(own, gate) {
            (
                Outcome { answer: Answer::Observed(own), .. },
                Outcome { answer: Answer::Observed(gate), .. },
            ) => {
                let observation = reader.view().observed(own, gate);
                Outcome { answer: Answer::Observed(observation), error: None }
            }
            (failed @ Outcome { error: Some(_), .. }, _) | (_, failed) => failed,
        }
    }

    async fn carry_out(&self, mut change: Change, limit: Duration) -> Outcome {
        let begun = Instant::now();
        if begins(&change)
            && let Err(outcome) = self.confirm(&change, limit).await
        {
            return outcome;
        }
        let tells = self.table.as_ref().map_or((true, true), |table| table.optional.known());
        match &mut change {
            // Known before the answer is: an attempt whose outcome is unknown may have been ours.
            change if begins(change) => self.told.set(tells),
            Change::Heartbeat { holder: said, .. } | Change::KeepWriting { holder: said, .. }
                if self.told.get() != tells =>
            {
                *said = Some(self.holder.clone());
            }
            _ => {}
        }
        let is_heartbeat = matches!(change, Change::Heartbeat { .. } | Change::KeepWriting { .. });
        let limit = limit.saturating_sub(begun.elapsed());
        if let (Role::Reader(reader), Some(table), Change::BeginRead { .. }) =
            (&self.role, &self.table, &change)
        {
            // Boxed for the same reason.
            return Box::pin(reader.begin(table, self.seat.lock(), change, limit)).await;
        }
        let outcome = self.seat.send(Load::Change(change), limit).await;
        if is_heartbeat && matches!(outcome.answer, Answer::Applied { .. }) {
            self.told.set(tells);
        }
        outcome
    }

    /// Refuses to begin while a column may be wrongly thought missing. Refuses to take over from a
    /// row whose lease was not read although there may be one (I1).
    async fn confirm(&self, change: &Change, limit: Duration) -> Result<(), Outcome> {
        let Some(table) = &self.table else { return Ok(()) };
        // Boxed: it is seldom under way, and thousands of acts would keep room for it.
        let ready = Box::pin(table.ready(Need::Begin, limit)).await;
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
