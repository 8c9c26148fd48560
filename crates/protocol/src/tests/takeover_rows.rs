//! Takeover rows: one for each lock, by the token that the term displaced.

use crate::*;

const LOCK: &str = "job";
const SEEN: Timestamp = Timestamp(1_795_000_000_000_002_000);
const BEFORE: Timestamp = Timestamp(1_795_000_000_000_001_000);

fn writer() -> Writer {
    Writer::term("a", Nonce { instance: 1, attempt: 1 })
}

/// The row of an expired term that displaced `displaced`.
fn lock_row(displaced: Option<Timestamp>) -> StoredRow {
    let (heartbeat, token) = (Some(SEEN), Some(SEEN));
    StoredRow { heartbeat, token, writer: writer(), displaced, ..StoredRow::new(LOCK) }
}

fn takeover() -> Change {
    let holder = Holder { lease: std::time::Duration::from_secs(1), info: None };
    let writer = Writer::term("b", Nonce { instance: 2, attempt: 1 });
    Change::Takeover { seen: lock_row(None).row(), writer, holder, passes: None }
}

fn release() -> Change {
    let term = TermId { token: SEEN, writer: writer() };
    Change::Release { term, next: Succession::Anyone }
}

/// Returns the writes by key and kind, and what each sets `displaced` to.
fn written(change: &Change, found: &[StoredRow]) -> Vec<(String, WriteKind, Option<Cell>)> {
    let set = |write: &Write| {
        let cell = write.cells.iter().find(|(column, _)| *column == Column::Displaced);
        cell.map(|(_, cell)| cell.clone())
    };
    let writes = change.judge(LOCK, found).expect("it is applied").into_iter();
    writes.map(|write| (write.key.clone(), write.kind, set(&write))).collect()
}

fn of(token: Timestamp) -> String {
    takeover_key(LOCK, token)
}

#[test]
fn a_takeover_deletes_the_takeover_row_of_the_term_before_and_adds_its_own() {
    use WriteKind::{Delete, Insert, Update};
    let began = (LOCK.to_string(), Update, Some(Cell::Time(SEEN)));
    let added = (of(SEEN), Insert, None);
    let first = written(&takeover(), &[lock_row(None)]);
    assert_eq!(first, [added.clone(), began.clone()], "after an insert or a release");
    let next = written(&takeover(), &[lock_row(Some(BEFORE))]);
    assert_eq!(next, [(of(BEFORE), Delete, None), added, began]);
}

#[test]
fn a_takeover_row_of_a_peer_is_written_over_and_delays_nobody() {
    let left = StoredRow { token: Some(BEFORE), writer: "peer".into(), ..StoredRow::new(of(SEEN)) };
    let writes = written(&takeover(), &[lock_row(None), left]);
    assert_eq!(writes[0], (of(SEEN), WriteKind::InsertOrUpdate, None));
    // The lock row alone decides.
    let changed = StoredRow { heartbeat: Some(BEFORE), ..lock_row(None) };
    assert!(takeover().judge(LOCK, &[changed]).is_err());
}

#[test]
fn a_release_deletes_its_takeover_row_and_an_eviction_or_a_seizure_leaves_it_to_the_next_takeover()
{
    let released = written(&release(), &[lock_row(Some(BEFORE))]);
    let free = (LOCK.to_string(), WriteKind::Update, Some(Cell::Null));
    assert_eq!(released, [(of(BEFORE), WriteKind::Delete, None), free]);
    let seize = Change::Seize { next: Succession::Anyone, info: None };
    for change in [Change::Evict { info: None }, seize] {
        let kept = written(&change, &[lock_row(Some(BEFORE))]);
        assert_eq!(kept, [(LOCK.to_string(), WriteKind::Update, None)], "{change:?}");
    }
}

#[test]
fn a_removed_row_takes_its_takeover_row_along() {
    let seen = Some(lock_row(None).row());
    let remove = Change::Remove { seen, takeovers: Vec::new() };
    let removed = written(&remove, &[lock_row(Some(BEFORE))]);
    let delete = |key: &str| (key.to_string(), WriteKind::Delete, None);
    assert_eq!(removed, [delete(&of(BEFORE)), delete(LOCK)]);
}

#[test]
fn each_change_reads_the_cell_by_which_it_deletes() {
    let seen = Some(lock_row(None).row());
    let changes = [takeover(), release(), Change::Remove { seen, takeovers: Vec::new() }];
    for change in changes {
        assert!(change.reads(LOCK).columns.contains(&Column::Displaced), "{change:?}");
    }
    let heartbeat =
        Change::Heartbeat { term: TermId { token: SEEN, writer: writer() }, looks: false };
    assert_eq!(heartbeat.reads(LOCK).columns, [Column::Token, Column::Writer]);
}
