//! The meaning of each change of the lock table, said once more: independently of the protocol, as
//! a whole table before and after.
//!
//! [`drift`] compares both over every change and every small table, so that neither can be changed
//! without the other.

use std::collections::BTreeMap;
use std::time::Duration;

use spindle_protocol::{
    Answer, Change, Holder, Nonce, Rejection, Row, Seen, StoredRow, Succession, TermId, Timestamp,
    Writer,
};

use crate::table::{LOCK, Table};

/// The rows of a table by their keys.
type Rows = BTreeMap<String, StoredRow>;

/// Returns the rows after the change, committed at `at`; or why it was refused.
///
/// Written for the eye: whole rows, no cells, and none of the protocol's own conditions.
fn specified(change: &Change, mut rows: Rows, at: Timestamp) -> Result<Rows, Rejection> {
    let lock = rows.get(LOCK).cloned();
    match change {
        Change::Insert { writer, holder } => {
            if lock.is_some() {
                return Err(Rejection::Changed(seen(lock)));
            }
            rows.insert(LOCK.into(), begun(writer, holder, at));
        }
        Change::Takeover { seen: expected, writer, over_leftover, holder } => {
            if !lock.as_ref().is_some_and(|row| is_same(row, expected)) {
                return Err(Rejection::Changed(seen(lock)));
            }
            let key = format!("{LOCK}_{:019}", expected.token.0);
            let earlier = rows.get(&key).cloned();
            if earlier.is_some() && !over_leftover {
                return Err(Rejection::TakeoverRowExists);
            }
            let arbiter = earlier.unwrap_or(StoredRow::new(key.clone()));
            rows.insert(key, StoredRow { token: Some(at), writer: writer.clone(), ..arbiter });
            rows.insert(LOCK.into(), begun(writer, holder, at));
        }
        Change::Heartbeat { term, holder } => {
            let mut row = of_term(lock, term)?;
            row.heartbeat = Some(at);
            if let Some(Holder { lease, info }) = holder {
                (row.lease_ms, row.info) = (Some(milliseconds(*lease)), info.clone());
            }
            rows.insert(LOCK.into(), row);
        }
        Change::Release { term, next, displaced, info } => {
            of_term(lock, term)?;
            rows.insert(LOCK.into(), free(next, info, at));
            if let Some(displaced) = displaced {
                let key = format!("{LOCK}_{:019}", displaced.0);
                if rows.get(&key).is_some_and(|row| row.heartbeat.is_none()) {
                    rows.remove(&key);
                }
            }
        }
        Change::Fence { term } => {
            of_term(lock, term)?;
        }
        Change::Evict { .. } | Change::Seize { .. } => {
            rows.insert(LOCK.into(), deposed(change, lock, at)?);
        }
        Change::Remove { .. } | Change::Sweep { .. } => return deleted(change, rows),
        // Not said once more: the onlooker of `rw` judges each commit of these, and the fences.
        Change::BeginRead { .. }
        | Change::EndRead { .. }
        | Change::BeginWrite { .. }
        | Change::KeepWriting { .. }
        | Change::EndWriting { .. } => return Err(Rejection::Needless),
    }
    Ok(rows)
}

/// Returns the lock row after an operator's hand.
fn deposed(
    change: &Change,
    lock: Option<StoredRow>,
    at: Timestamp,
) -> Result<StoredRow, Rejection> {
    match change {
        Change::Evict { keep_away, info } => {
            let Some(mut row) = lock else { return Err(Rejection::Needless) };
            let Some(id) = row.writer.id().map(str::to_string) else {
                return Err(Rejection::Needless);
            };
            row.token = Some(at);
            row.writer = match keep_away {
                Some(keep_away) => format!("!{id}!{}", milliseconds(*keep_away)).as_str().into(),
                None => "".into(),
            };
            row.info.clone_from(info);
            Ok(row)
        }
        Change::Seize { next, info } => {
            let is_free = lock.is_none_or(|row| {
                row.writer.as_str().is_empty() && row.heartbeat.is_none_or(|beat| beat.0 == 0)
            });
            if is_free && *next == Succession::Anyone {
                return Err(Rejection::Needless);
            }
            Ok(free(next, info, at))
        }
        _ => Err(Rejection::Needless),
    }
}

/// Returns the rows that are left by a deletion.
fn deleted(change: &Change, mut rows: Rows) -> Result<Rows, Rejection> {
    let before = rows.len();
    let keys = match change {
        Change::Remove { seen: expected, takeovers } => {
            let lock = rows.remove(LOCK);
            let same = match (&lock, expected) {
                (Some(row), Some(expected)) => is_same(row, expected),
                (None, None) => true,
                _ => false,
            };
            if !same {
                return Err(Rejection::Changed(seen(lock)));
            }
            takeovers
        }
        Change::Sweep { keys } => keys,
        _ => return Ok(rows),
    };
    rows.retain(|key, row| !keys.contains(key) || row.heartbeat.is_some());
    if rows.len() == before { Err(Rejection::Needless) } else { Ok(rows) }
}

fn begun(writer: &Writer, holder: &Holder, at: Timestamp) -> StoredRow {
    StoredRow {
        heartbeat: Some(at),
        token: Some(at),
        writer: writer.clone(),
        lease_ms: Some(milliseconds(holder.lease)),
        info: holder.info.clone(),
        ..StoredRow::new(LOCK)
    }
}

fn free(next: &Succession, info: &Option<String>, at: Timestamp) -> StoredRow {
    let (writer, lease_ms) = match next {
        Succession::Anyone => (String::new(), None),
        Succession::Successor { id, grace } => (format!(">{id}"), Some(milliseconds(*grace))),
        Succession::Cooldown { rest } => (">".to_string(), Some(milliseconds(*rest))),
    };
    StoredRow {
        heartbeat: Some(Timestamp(0)),
        token: Some(at),
        writer: writer.as_str().into(),
        lease_ms,
        info: info.clone(),
        ..StoredRow::new(LOCK)
    }
}

fn of_term(row: Option<StoredRow>, term: &TermId) -> Result<StoredRow, Rejection> {
    match row {
        Some(row) if row.token == Some(term.token) && row.writer == term.writer => Ok(row),
        row => Err(Rejection::Changed(seen(row))),
    }
}

fn is_same(row: &StoredRow, expected: &Row) -> bool {
    row.heartbeat.unwrap_or(Timestamp(0)) == expected.heartbeat
        && row.token.unwrap_or(Timestamp(0)) == expected.token
        && row.writer == expected.writer
}

fn seen(row: Option<StoredRow>) -> Option<Seen> {
    row.map(|row| Seen { token: row.token.unwrap_or(Timestamp(0)), writer: row.writer })
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Spanner's clock in the small tables.
const NOW: Timestamp = Timestamp(1_795_000_000_000_000_000);
const EARLIER: Timestamp = Timestamp(NOW.0 - 1_000_000_000);

/// Returns the first change and table on which the protocol's definition and this one differ, and
/// how many pairs were compared.
pub fn drift() -> (usize, Option<String>) {
    let mut compared = 0;
    for table in tables() {
        for change in changes() {
            for optional_columns in [true, false] {
                compared += 1;
                let difference = compare(&table, &change, optional_columns);
                if difference.is_some() {
                    return (compared, difference);
                }
            }
        }
    }
    (compared, None)
}

fn compare(table: &[StoredRow], change: &Change, optional_columns: bool) -> Option<String> {
    let before = Table::new(optional_columns, table.iter().cloned());
    let mut after = before.clone();
    let answer = after.change(NOW, change);
    let at = Timestamp(NOW.0 + 1);
    let rows = before.rows().map(|row| (row.key.clone(), row.clone())).collect();
    let (expected_answer, expected) = match specified(change, rows, at) {
        Ok(rows) => (Answer::Applied { at }, Table::new(optional_columns, rows.into_values())),
        Err(rejection) => (Answer::Rejected(rejection), before.clone()),
    };
    let same = answer == expected_answer && after.rows().eq(expected.rows());
    (!same).then(|| {
        let rows = |table: &Table| format!("{:?}", table.rows().collect::<Vec<_>>());
        format!(
            "{change:?} of {}: {answer:?} and {}; specified: {expected_answer:?} and {}",
            rows(&before),
            rows(&after),
            rows(&expected)
        )
    })
}

fn terms() -> [TermId; 2] {
    [1, 2].map(|attempt| TermId {
        token: EARLIER,
        writer: Writer::term("a", Nonce { instance: 7, attempt }),
    })
}

fn writers() -> Vec<Writer> {
    let [first, second] = terms();
    let texts = ["", ">b", ">", "!a!5", "stranger"];
    [first.writer, second.writer].into_iter().chain(texts.map(Writer::from)).collect()
}

/// Returns every lock row of few values, beside every takeover row of its token, and a neighbour.
fn tables() -> Vec<Vec<StoredRow>> {
    let mut locks = vec![None];
    for heartbeat in [None, Some(Timestamp::EPOCH), Some(EARLIER), Some(NOW)] {
        for token in [None, Some(EARLIER), Some(NOW)] {
            for writer in writers() {
                for lease_ms in [None, Some(9_000)] {
                    let (writer, info) = (writer.clone(), lease_ms.map(|_| "text".to_string()));
                    let key = LOCK.to_string();
                    locks.push(Some(StoredRow { key, heartbeat, token, writer, lease_ms, info }));
                }
            }
        }
    }
    let takeover = |heartbeat| {
        let writer = Writer::from("stranger");
        StoredRow {
            heartbeat,
            token: Some(NOW),
            writer,
            ..StoredRow::new(takeover_keys()[0].clone())
        }
    };
    let takeovers = [None, Some(takeover(None)), Some(takeover(Some(EARLIER)))];
    let neighbour = StoredRow { token: Some(EARLIER), ..StoredRow::new(format!("{LOCK}_0")) };
    locks
        .into_iter()
        .flat_map(|lock| takeovers.clone().map(|takeover| (lock.clone(), takeover)))
        .map(|(lock, takeover)| [lock, takeover, Some(neighbour.clone())].into_iter().flatten())
        .map(Iterator::collect)
        .collect()
}

fn takeover_keys() -> [String; 2] {
    [EARLIER, NOW].map(|token| format!("{LOCK}_{:019}", token.0))
}

fn changes() -> Vec<Change> {
    let holder = Holder { lease: Duration::from_secs(4), info: Some("http://here".into()) };
    let [term, other] = terms();
    let writer = other.writer.clone();
    let info = Some("note".to_string());
    let mut changes = vec![
        Change::Insert { writer: writer.clone(), holder: holder.clone() },
        Change::Heartbeat { term: term.clone(), holder: None },
        Change::Heartbeat { term: term.clone(), holder: Some(holder.clone()) },
        Change::Evict { keep_away: None, info: None },
        Change::Evict { keep_away: Some(Duration::from_secs(60)), info: info.clone() },
        Change::Sweep { keys: takeover_keys().to_vec() },
        Change::Sweep { keys: vec![format!("{LOCK}_9")] },
        Change::Remove { seen: None, takeovers: takeover_keys().to_vec() },
        Change::Fence { term: term.clone() },
    ];
    let successions = [
        Succession::Anyone,
        Succession::Successor { id: "b".into(), grace: Duration::from_secs(2) },
        Succession::Cooldown { rest: Duration::from_secs(3) },
    ];
    for next in successions {
        for displaced in [None, Some(EARLIER), Some(NOW)] {
            let (term, next, info) = (term.clone(), next.clone(), info.clone());
            changes.push(Change::Release { term, next, displaced, info });
        }
        changes.push(Change::Seize { next, info: info.clone() });
    }
    for heartbeat in [Timestamp::EPOCH, EARLIER] {
        for seen in writers() {
            let seen = Row { heartbeat, token: EARLIER, writer: seen, lease: None };
            changes.extend([false, true].map(|over_leftover| {
                let (seen, holder) = (seen.clone(), holder.clone());
                Change::Takeover { seen, writer: writer.clone(), over_leftover, holder }
            }));
            changes.push(Change::Remove { seen: Some(seen), takeovers: takeover_keys().to_vec() });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_defines_every_change_as_the_oracle_does() {
        let (compared, drift) = drift();
        assert_eq!(drift, None);
        assert!(compared > 30_000, "compared {compared}");
    }
}
