//! An owner's work with a term: fenced writes, some decided early and sent late.

use std::sync::Arc;

use rand::RngExt as _;
use spindle::{Term, simulation};
use spindle_emulator::engine::{Cell, Code, Concurrency, Mutation, WriteKind};
use spindle_protocol::{Change, TermId, Timestamp, Writer};
use tokio::time::{sleep, timeout};

use crate::checks::Purpose;
use crate::coverage::CoverageGoal;
use crate::network::{LockEffect, Reply, Request, call};
use crate::process::Process;
use crate::rows::LEDGER;
use crate::world::World;

/// Writes under the term now, or much later, after it is long over.
pub(crate) fn write(world: &Arc<World>, process: &Process, term: &Term) {
    let token = Timestamp(term.token().as_nanoseconds().cast_signed());
    let writer = Writer::from(simulation::writer(term));
    let (world, who, format) = (Arc::clone(world), process.who, process.format);
    let lock = process.lock_name.clone();
    let lease = process.timing().lease;
    let (decided_early, think, serial) = world.random(|random| {
        let early = if random.random_bool(0.3) { random.random_range(0.0..3.0) } else { 0.0 };
        // Most know what they write; a few hold their transaction open across the end of the lease.
        let think = if random.random_bool(0.05) { random.random_range(0.0..1.2) } else { 0.0 };
        (lease.mul_f64(early), lease.mul_f64(think), random.random::<i64>())
    });
    tokio::spawn(async move {
        sleep(decided_early).await;
        let term = TermId { token, writer };
        let fence = Change::Fence { term: term.clone() };
        let reads = format.reads(&[(lock.as_str().into(), fence.clone())]);
        let keys = reads.keys.into_iter().map(|(in_table, _)| in_table).collect();
        let concurrency = Concurrency::Pessimistic;
        let begin = Request::Begin { keys, columns: reads.columns, concurrency };
        let begun = timeout(lease, call(&world, who, begin)).await;
        let Ok(Ok(Reply::Begun { id, rows })) = begun else { return };
        let found: Vec<_> = rows.iter().map(|row| format.row(&lock, row)).collect();
        if fence.judge(&lock, &found).is_err() {
            world.saw(CoverageGoal::FencedOff);
            let _ = timeout(lease, call(&world, who, Request::Rollback(id))).await;
            return;
        }
        sleep(think).await;
        let cells = [("serial", Cell::from(serial)), ("lock_name", lock.as_str().into())];
        let mutations = vec![Mutation::write(WriteKind::InsertOrUpdate, LEDGER, cells)];
        let purpose = Purpose::Fenced(format.written_term(&term));
        let part = LockEffect { by: who, lock, purpose, mutations };
        let commit = Request::Commit { id, parts: vec![part] };
        match timeout(lease, call(&world, who, commit)).await {
            Ok(Ok(_)) => world.saw(CoverageGoal::FencedWrite),
            Ok(Err(Code::Aborted)) => world.saw(CoverageGoal::FencedOff),
            _ => {}
        }
    });
}
