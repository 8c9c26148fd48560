// Writes one fenced order after the other, while it leads: leader.mjs DATABASE ID.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Spanner, protos } from '@google-cloud/spanner';
import { Agent, Fenced } from 'spindle-agent';

const [path, name] = process.argv.slice(2);
const [, project, , instance, , database] = path.split('/');
const orders = new Spanner({ projectId: project }).instance(instance).database(database);

async function write(transaction, term) {
  await term.check(transaction);
  const [id, token] = [randomBytes(8).toString('hex'), Spanner.int(String(term.token))];
  transaction.insert('orders', { id, leader: name, token, written: Spanner.COMMIT_TIMESTAMP });
  await transaction.commit();
}

// If this process dies before the commit, its transaction keeps no lock, and the next leader waits for the lease alone.
const readLockMode = protos.google.spanner.v1.TransactionOptions.ReadWrite.ReadLockMode.OPTIMISTIC;
async function work(term) {
  while (term.isHeld()) {
    console.log(`works ${term.token}`);
    await sleep(500); // it prepares the order, and the process may be stopped for an hour
    try {
      await orders.runTransactionAsync({ readLockMode }, (transaction) => write(transaction, term));
      console.log(`wrote ${term.token}`);
    } catch (error) {
      console.log(error instanceof Fenced ? 'fenced' : 'failed', error.message);
    }
  }
}

await new Agent().lead('orders', work, { id: name, lease: 4000 });
