//! The modes of locks that go together.

use super::super::value::Value;
use super::*;

fn key(number: i64) -> Key {
    Key(vec![KeyPart::Ascending(Value::Int64(number))])
}

fn lock(range: KeyRange, column: usize, mode: Mode) -> Lock {
    let mut columns = Columns::default();
    columns.insert(column);
    Lock { range, columns, mode }
}

#[test]
fn only_readers_share_with_readers_and_blind_writers_with_blind_writers() {
    let modes = [Mode::Shared, Mode::WriterShared, Mode::Exclusive];
    for held in modes {
        for asked in modes {
            let mut locks = LockTable::new(1);
            locks.grant(TransactionId(1), lock(KeyRange::prefix(key(1)), 0, held));
            let asked_lock = lock(KeyRange::prefix(key(1)), 0, asked);
            let allowed = held == asked && held != Mode::Exclusive;
            assert_eq!(
                locks.conflicts(TransactionId(2), &asked_lock).is_empty(),
                allowed,
                "{held:?} {asked:?}"
            );
            assert!(locks.conflicts(TransactionId(1), &asked_lock).is_empty(), "one's own locks");
        }
    }
}
