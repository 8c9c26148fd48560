//! Requests beside each other, without a network.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::engine::{Dialect, TokioClock};

#[test]
fn no_session_outlives_a_database_that_is_dropped_beside_its_making() {
    let core = Core::new(Arc::new(TokioClock::new()));
    let database = "projects/p/instances/i/databases/d";
    for _ in 0..100 {
        let made = core.new_database(Dialect::GoogleSql, &[]).unwrap();
        core.add_database(database, made).unwrap();
        let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let request =
                    proto::CreateSessionRequest { database: database.into(), session: None };
                while !over.load(Ordering::Relaxed) {
                    begun.fetch_or(core.create_session(&request).is_ok(), Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            core.drop_database(database);
            over.store(true, Ordering::Relaxed);
        });
        let request =
            proto::ListSessionsRequest { database: database.into(), ..Default::default() };
        let left = core.sessions().list(&request, core.clock().now()).unwrap().sessions;
        assert!(left.is_empty(), "{left:?}");
    }
}
