// The package, with agents and locks that are real. `clients/test` has the database.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, readdir, readlink, rm, writeFile } from 'node:fs/promises';
import { createServer as createWebServer } from 'node:http';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Claim } from '../src/claim.js';
import * as spindle from '../src/index.js';

const { Agent, NotHeld } = spindle;
const ENOUGH = new Error('enough');
// What is waited for comes within WITHIN, also on a busy machine. A lease of LONG runs out later than that.
const [WITHIN, LONG] = [40_000, 60_000];
// A term that is held for LATER has outlasted its LEASE.
const [LEASE, LATER] = [6000, 8000];
const LIMIT = { timeout: 110_000 };

const tests = [];
const test = (...parts) => tests.push(parts);

async function firstLine(process) {
  for await (const line of createInterface({ input: process.stdout })) return line;
  throw new Error('the process said nothing');
}

/** An agent of the program's, and a client of it. */
async function started(t, { at = '--listen=127.0.0.1:0', more = [], ...settings } = {}) {
  const program = spawn(process.env.SPINDLE_PROGRAM, ['agent', at, ...more], { stdio: ['ignore', 'pipe', 'ignore'] });
  t.after(() => program.kill('SIGKILL'));
  const address = (await firstLine(program)).split(' ')[2].replace(/^http:\/\/|\/$/g, '');
  const agent = new Agent({ address, sigterm: false, ...settings });
  t.after(() => agent.close());
  return { program, address, agent };
}

async function folder(t) {
  const made = await mkdtemp(join(tmpdir(), 'spindle-'));
  t.after(() => rm(made, { recursive: true }));
  return made;
}

/** An agent that is played: it answers a stream with `gained`, and its release as this says. */
async function played(t, release, lasts = 10n ** 15n) {
  const far = String(process.hrtime.bigint() + lasts);
  const deadline = { monotonic_ns: far, boottime_ns: far };
  const told = { event: 'gained', lock: 'played', token: '1', fence: {}, deadline };
  const server = createWebServer((request, answer) => {
    if (request.method === 'DELETE') return release(request, answer);
    if (request.url.endsWith('/heartbeat')) return answer.end('{}');
    answer.write(`data: ${JSON.stringify(told)}\n\n`);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => (server.closeAllConnections(), server.close()));
  const address = `127.0.0.1:${server.address().port}`;
  const agent = new Agent({ address, sigterm: false });
  t.after(() => agent.close());
  return { agent, address };
}

/** Leads for one term, which comes sooner than by the end of another's lease of LONG. */
async function leads(agent, lock, lease, work = () => {}) {
  const began = performance.now();
  let told;
  const leading = agent.lead(lock, async (term) => {
    const took = performance.now() - began;
    assert.ok(took < WITHIN, `${lock} was not let go of: ${took} ms`);
    told = term;
    await work(term);
    throw ENOUGH;
  }, { lease });
  await assert.rejects(leading, ENOUGH);
  return told;
}

const over = (term) => term.signal.aborted || once(term.signal, 'abort');

test('a term lasts longer than its lease, and is let go of at the end of the work', LIMIT, async (t) => {
  const { agent } = await started(t);
  const term = await leads(agent, 'node-lead', LEASE, async (term) => {
    await sleep(LATER);
    assert.ok(term.isHeld(), 'heartbeats renew it');
  });
  assert.equal(term.isHeld(), false);
  assert.ok(term.signal.aborted);
  assert.throws(() => term.ensure(), NotHeld);
  const after = await leads(agent, 'node-lead', LONG);
  assert.ok(after.token > term.token);
  await leads(agent, 'node-lead', LONG);
});

test('a lock of another is not acquired, and is once it is let go of', LIMIT, async (t) => {
  const { agent } = await started(t);
  const token = await agent.acquire('node-acquire', async (term) => {
    await assert.rejects(agent.acquire('node-acquire', () => {}), NotHeld);
    return term.token;
  }, { lease: LONG });
  await agent.acquire('node-acquire', async (after) => {
    assert.ok(after.token > token);
    await sleep(LATER);
    assert.ok(after.isHeld(), 'its heartbeats tell later deadlines');
  }, { wait: WITHIN, lease: LEASE });
});

test('a slot runs once, and again after a failure', LIMIT, async (t) => {
  const { agent } = await started(t);
  const options = { slot: new Date(), retryPause: 0, lease: LONG };
  let runs = 0;
  const fails = () => Promise.reject(ENOUGH);
  await assert.rejects(agent.runOnce('node-job', fails, options), ENOUGH);
  assert.equal(await agent.runOnce('node-job', () => runs++, options), 'released');
  assert.equal(await agent.runOnce('node-job', () => runs++, options), 'skipped');
  assert.equal(runs, 1);
});

test('a run is released if the agent says so alone', LIMIT, async (t) => {
  for (const [status, told, said] of [
    [200, { outcome: 'released' }, 'released'],
    [200, { outcome: 'ended_before' }, 'ended_before'],
    [200, { outcome: 'unacknowledged' }, 'unacknowledged'],
    [404, { code: 'no_such_claim', error: 'it is over' }, 'gone'],
    [0, {}, 'gone'],
  ]) {
    const outcomes = [];
    const { agent } = await played(t, (request, answer) => {
      outcomes.push(request.url.split('?')[1]);
      if (status === 0) return request.socket.destroy();
      answer.writeHead(status).end(JSON.stringify(told));
    });
    assert.equal(await agent.runOnce('node-said', () => {}, { every: 3_600_000 }), said);
    assert.deepEqual(outcomes, ['outcome=done']);
  }
});

test('a run whose signal has aborted before asks for nothing', LIMIT, async (t) => {
  const { agent } = await started(t);
  const options = { slot: new Date(), attempts: 1, lease: LONG };
  const none = () => assert.fail('it runs');
  assert.equal(await agent.runOnce('node-aborted', none, { ...options, signal: AbortSignal.abort() }), 'gone');
  assert.equal(await agent.runOnce('node-aborted', () => {}, options), 'released');
});

test('an address without a port is refused', async (t) => {
  const wrong = 'localhost agent.sock run/agent.sock:1 http://localhost:1 localhost: :1 a:0 a:65536 ::1:1 [::1]';
  for (const address of wrong.split(' ')) {
    const message = `address ${address}: expected HOST:PORT, or the path of a socket`;
    assert.throws(() => new Agent({ address, sigterm: false }), { message });
  }
  for (const address of ['localhost:80', '127.0.0.1:9465', '[::1]:9465', 'a_b.c-d:1', '/run/spindle/agent.sock']) {
    new Agent({ address, sigterm: false });
  }
  const server = createServer((client) => client.end('HTTP/1.1 409 Conflict\r\n\r\n{"code":"held"}'));
  server.listen(0, '::1');
  const isThere = await once(server, 'listening').then(() => true, () => false);
  if (!isThere) return t.diagnostic('this machine has no IPv6');
  t.after(() => server.close());
  const agent = new Agent({ address: `[::1]:${server.address().port}`, sigterm: false });
  await assert.rejects(agent.acquire('node-ipv6', () => {}), NotHeld);
});

test('a socket, and a secret that is written anew', LIMIT, async (t) => {
  const inside = await folder(t);
  const tokenFile = join(inside, 'token');
  const write = (text) => writeFile(tokenFile, text, { mode: 0o600 });
  await write('the first of two secrets');
  const at = `--socket=${join(inside, 'agent.sock')}`;
  const { agent, address } = await started(t, { at, more: ['--token-file', tokenFile], tokenFile });
  for (const text of ['the first of two secrets', 'another secret, and longer']) {
    await write(text);
    await agent.acquire('node-secret', (term) => assert.ok(term.isHeld()));
  }
  const other = new Agent({ address, token: 'something else altogether', sigterm: false });
  await assert.rejects(other.acquire('node-secret', () => {}), { code: 'unauthorized' });
});

test('a child has no connection of its parent', LIMIT, async (t) => {
  const { agent } = await started(t);
  await leads(agent, 'node-child', LONG, async () => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' });
    await once(child, 'spawn');
    const folder = `/proc/${child.pid}/fd`;
    // It opens and closes files of its own meanwhile.
    const link = (fd) => readlink(join(folder, fd)).catch(() => '');
    const links = await Promise.all((await readdir(folder)).map(link));
    child.kill();
    assert.deepEqual(links.filter((link) => link.startsWith('socket:')), []);
  });
});

test('an agent that ends is let go of, and another leads at once', LIMIT, async (t) => {
  const first = await started(t);
  const second = await started(t);
  // A heartbeat, one each quarter of the lease, would say so later than the stream does.
  await leads(first.agent, 'node-ending', 5 * WITHIN, async (term) => {
    first.program.kill('SIGTERM');
    const told = performance.now();
    await over(term);
    assert.ok(performance.now() - told < WITHIN, 'its stream says so');
  });
  await leads(second.agent, 'node-ending', LONG);
});

test('an agent that dies ends the term, and its client goes on contending', LIMIT, async (t) => {
  const at = `--socket=${join(await folder(t), 'agent.sock')}`;
  const { agent, program } = await started(t, { at });
  let terms = 0;
  const leading = agent.lead('node-dies', async (term) => {
    if (++terms === 2) throw ENOUGH;
    program.kill('SIGKILL');
    await over(term);
    await started(t, { at });
  }, { lease: 2000 });
  await assert.rejects(leading, ENOUGH);
});

test('close ends the work first, and lets go then', LIMIT, async (t) => {
  const { agent, address } = await started(t);
  const steps = [];
  const begun = new Promise((resolve) => {
    agent.lead('node-close', async (term) => {
      resolve();
      await over(term);
      await sleep(200);
      steps.push('work');
    }, { lease: LONG });
  });
  await begun;
  await agent.close();
  steps.push('closed');
  assert.deepEqual(steps, ['work', 'closed']);
  const other = new Agent({ address, sigterm: false });
  await leads(other, 'node-close', LONG);
});

test('a contender that is closed before its request arrives leaves nothing behind', LIMIT, async (t) => {
  const { address, agent: other } = await started(t);
  Claim.openMax = WITHIN;
  const [host, port] = address.split(':');
  let relayed;
  const relay = createServer((client) => {
    const agent = connect({ host, port });
    agent.on('error', () => {}).pipe(client);
    const ends = () => setTimeout(() => agent.destroy(), 500).unref();
    client.on('error', ends).on('close', ends);
    client.once('data', async (head) => {
      if (head.includes('/v1/lead')) {
        relayed = once(agent, 'close');
        await sleep(300);
      }
      agent.write(head);
    });
  });
  await once(relay.listen(0, '127.0.0.1'), 'listening');
  t.after(() => relay.close());
  const agent = new Agent({ address: `127.0.0.1:${relay.address().port}`, sigterm: false });
  const leading = agent.lead('node-early', () => {}, { lease: LONG });
  await sleep(50);
  await agent.close();
  await leading;
  await relayed;
  await leads(other, 'node-early', LONG);
});

test('a service that is told to end lets go, and ends by the signal', LIMIT, async (t) => {
  const { agent, address } = await started(t);
  const index = new URL('../src/index.js', import.meta.url);
  for (const [lock, isDone] of [['node-sigterm', true], ['node-goes-on', false]]) {
    // The second one never stops its work: it waits for its deadline alone.
    const source = `import { Agent } from '${index}';
      await new Agent().lead('${lock}', async (term) => {
        console.log('leads');
        await new Promise((resolve) => ${isDone} && term.signal.addEventListener('abort', resolve));
      }, { lease: ${isDone ? LONG : 2000} });`;
    const options = { env: { ...process.env, SPINDLE_AGENT: address }, stdio: ['ignore', 'pipe', 'inherit'] };
    const service = spawn(process.execPath, ['--input-type=module', '-e', source], options);
    t.after(() => service.kill('SIGKILL'));
    assert.equal(await firstLine(service), 'leads');
    service.kill('SIGTERM');
    assert.deepEqual(await once(service, 'exit'), [null, 'SIGTERM']);
    // A contender waits for a lease of its own, too.
    await leads(agent, lock, isDone ? LONG : 2000);
  }
});

test('a service that is told to end waits for the answer to a release that has begun', LIMIT, async (t) => {
  let service;
  let isAnswered = false;
  // The release begins after the deadline, for which alone work is waited for.
  const { address } = await played(t, async (_, answer) => {
    service.kill('SIGTERM');
    await sleep(1000);
    isAnswered = true;
    answer.end('{"outcome":"released"}');
  }, 10n ** 9n / 2n);
  const source = `import { Agent } from '${new URL('../src/index.js', import.meta.url)}';
    await new Agent().lead('played', (term) => new Promise((resolve) => term.signal.addEventListener('abort', resolve)));`;
  const env = { ...process.env, SPINDLE_AGENT: address };
  service = spawn(process.execPath, ['--input-type=module', '-e', source], { env, stdio: 'inherit' });
  t.after(() => service.kill('SIGKILL'));
  assert.deepEqual(await once(service, 'exit'), [null, 'SIGTERM']);
  assert.ok(isAnswered);
});

test('work that ends with its term is no error, and the next term begins', LIMIT, async (t) => {
  const at = `--socket=${join(await folder(t), 'agent.sock')}`;
  const { agent, program } = await started(t, { at });
  let terms = 0;
  const leading = agent.lead('node-over', async (term) => {
    terms += 1;
    if (terms === 1) throw new spindle.Fenced('an order');
    if (terms === 2) {
      program.kill('SIGKILL');
      await sleep(60_000, undefined, { signal: term.signal }).finally(() => started(t, { at }));
    }
    throw new NotHeld('a lock of another, while the term goes on');
  }, { lease: LEASE });
  await assert.rejects(leading, NotHeld);
  assert.equal(terms, 3);
});

test('what no repetition cures is thrown', LIMIT, async (t) => {
  const { agent } = await started(t);
  await assert.rejects(agent.lead('node-bad', () => {}, { id: '>id' }), { code: 'bad_request' });
});

test('a fence that is lost rolls back', async () => {
  const fence = { table: 'locktable', lock: 'a', writer: 'w', timestamp: '2026-01-01T00:00:00Z' };
  const far = String(process.hrtime.bigint() + 10n ** 15n);
  const term = new spindle.Term({ lock: 'a', token: '1', fence, deadline: { monotonic_ns: far, boottime_ns: far } });
  const rows = [[[1]], [[]]];
  let rollbacks = 0;
  const transaction = { run: async () => rows.shift(), rollback: async () => rollbacks++ };
  await term.check(transaction);
  assert.equal(rollbacks, 0);
  await assert.rejects(term.check(transaction), spindle.Fenced);
  assert.equal(rollbacks, 1);
  term.end();
});

test('a deadline of either clock ends the term', () => {
  const fence = {};
  const [soon, far] = [String(process.hrtime.bigint()), String(process.hrtime.bigint() + 10n ** 15n)];
  for (const deadline of [{ monotonic_ns: far, boottime_ns: soon }, { monotonic_ns: soon, boottime_ns: far }]) {
    const term = new spindle.Term({ lock: 'a', token: '1', fence, deadline });
    assert.equal(term.isHeld(), false);
    term.end();
  }
});

test('the types name what the package has', async () => {
  const types = await readFile(new URL('../src/index.d.ts', import.meta.url), 'utf8');
  const classes = [...types.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(classes.sort(), Object.keys(spindle).sort());
});

describe('the package', { concurrency: true }, () => tests.forEach((parts) => it(...parts)));
