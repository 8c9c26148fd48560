//! The health of all instances of a table, for one probe of a service with many locks.

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::health::{Health, Role};
use super::published::Published;
use crate::names::subject;

/// The health of all that a table runs in this process, for the probes of a service with many locks:
/// the worst of each.
///
/// An instance counts from its first [`run`](crate::Spindle::run), [`lead`](crate::Spindle::lead) or
/// [`acquire`](crate::Spindle::acquire) until its last handle is gone or its loop has ended as it was
/// told. Members, permits and readers count, too. As text it names what is in trouble, one a line.
///
/// ```
/// # use spindle::LockTable;
/// /// The status and the body of a readiness probe: ready for as long as some lock works.
/// fn readiness(table: &LockTable) -> (u16, String) {
///     let health = table.health();
///     let is_ready = health.is_ready() || health.in_trouble.len() < health.instances;
///     (if is_ready { 200 } else { 503 }, health.to_string())
/// }
/// # let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
/// # assert_eq!(readiness(&table).0, 200);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableHealth {
    /// How many instances there are.
    pub instances: usize,
    /// Those that aren't [ready](Health::is_ready), by the names of their rows: first those that need a
    /// restart, then those whose trouble has lasted longest.
    pub in_trouble: Vec<(String, Health)>,
}

impl TableHealth {
    /// Tells a startup probe that all instances have [reached Spanner](Health::is_started).
    pub fn is_started(&self) -> bool {
        self.all(Health::is_started)
    }

    /// Tells a readiness probe that all instances are [ready](Health::is_ready). One lock in trouble
    /// should seldom take a replica away: compare the number of those
    /// [in trouble](TableHealth::in_trouble) where it must not.
    pub fn is_ready(&self) -> bool {
        self.in_trouble.is_empty()
    }

    /// Tells a liveness probe that [no restart is needed](Health::is_alive), for any instance.
    pub fn is_alive(&self) -> bool {
        self.all(Health::is_alive)
    }

    /// An instance that isn't started or alive isn't ready either.
    fn all(&self, is_fine: impl Fn(&Health) -> bool) -> bool {
        self.in_trouble.iter().all(|(_, health)| is_fine(health))
    }
}

impl fmt::Display for TableHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, health)) in self.in_trouble.iter().enumerate() {
            let (line, subject) = (if at > 0 { "\n" } else { "" }, subject(name));
            match &health.trouble {
                Some(trouble) => write!(f, "{line}{subject}: {}", trouble.error)?,
                None => write!(f, "{line}{subject}: no answer yet")?,
            }
        }
        Ok(())
    }
}

/// The instances of a table whose loops were started.
#[derive(Debug, Default)]
pub(crate) struct Instances(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    instances: Vec<Weak<Published>>,
    /// How many there may be before those that are gone are looked for.
    tidy_at: usize,
}

impl Instances {
    pub(crate) fn add(&self, instance: &Arc<Published>) {
        let mut registered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Registered { instances, tidy_at } = &mut *registered;
        if instances.len() >= *tidy_at {
            instances.retain(|instance| instance.strong_count() > 0);
            *tidy_at = (instances.len() * 2).max(64);
        }
        instances.push(Arc::downgrade(instance));
    }

    pub(crate) fn health(&self) -> TableHealth {
        let instances = self.0.lock().unwrap_or_else(PoisonError::into_inner).instances.clone();
        let mut health = TableHealth::default();
        for instance in instances.iter().filter_map(Weak::upgrade) {
            let its = instance.health();
            if its.role == Role::Ended && its.trouble.is_none() {
                continue;
            }
            health.instances += 1;
            if !its.is_ready() {
                health.in_trouble.push((instance.lock().to_string(), its));
            }
        }
        health.in_trouble.sort_by_cached_key(|(name, health)| {
            let lasting = health.trouble.as_ref().map(|trouble| trouble.lasting);
            (health.is_alive(), Reverse(lasting), name.clone())
        });
        health
    }
}
