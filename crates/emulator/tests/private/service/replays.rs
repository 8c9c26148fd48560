//! Answers that are kept for a repeated request.

use super::*;
use crate::engine::ReadWriteOptions;

#[test]
fn an_open_transaction_is_remembered_beside_any_number_of_those_that_are_over() {
    let database = Database::default();
    let begin = || database.begin(&ReadWriteOptions::default());
    let mut replays = Replays::default();
    let open = begin();
    replays.of(&database, open).end();
    for _ in 0..3 * SWEPT_FROM {
        let failed = begin();
        replays.of(&database, failed);
        database.fail(failed, Error::aborted("it has lost"));
    }
    assert!(replays.check(open).is_err(), "its last statement has run");
    assert!(replays.by_transaction.len() <= SWEPT_FROM);
}
