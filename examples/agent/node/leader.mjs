// Writes one fenced order after the other, while it leads: leader.mjs DATABASE ID.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Spanner, protos } from '@google-cloud/spanner';
import { Fenced, Leader, check } from './spindle-agent.mjs';

const [path, name] = process.argv.slice(2);
const [, project, , instance, , database] = path.split('/');
const orders = new Spanner({ projectId: project }).instance(instance).database(database);

async function write(transaction, term) {
  try {
    await check(transaction, term);
    const [id, token] = [randomBytes(8).toString('hex'), Spanner.int(term.token)];
    transaction.insert('orders', { id, leader: name, token, written: Spanner.COMMIT_TIMESTAMP });
    await transaction.commit();
  } catch (error) {
    if (error instanceof Fenced) await transaction.rollback();
    throw error; // what Spanner aborted, the client runs again
  }
}

// If this process dies before the commit, its transaction keeps no lock, and the next leader waits for the lease alone.
const readLockMode = protos.google.spanner.v1.TransactionOptions.ReadWrite.ReadLockMode.OPTIMISTIC;
const leader = new Leader('orders', name);
for (;;) {
  const term = leader.term();
  if (!term) {
    await sleep(50);
    continue;
  }
  console.log('works', term.token);
  await sleep(500); // it prepares the order, and the process may be stopped for an hour
  try {
    await orders.runTransactionAsync({ readLockMode }, (transaction) => write(transaction, term));
    console.log('wrote', term.token);
  } catch (error) {
    console.log(error instanceof Fenced ? 'fenced' : 'failed', error.message);
  }
}
