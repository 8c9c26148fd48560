// Locks and leader election on Cloud Spanner, through `spindle agent` on the same host. The types are in index.d.ts.
import { Claim, PAUSE_MIN, pause } from './claim.js';
import { Place } from './http.js';
import { Fenced, NotHeld } from './term.js';

export { AgentError } from './http.js';
export { Fenced, NotHeld, Term } from './term.js';

const PAUSE_MAX = 5_000;
const SIGNALS = ['SIGTERM', 'SIGINT'];

/** Agents that let go when the process is told to end. */
const open = new Set();

/** Lets go, and ends as the signal would have, unless the process has a handler of its own. */
async function told(signal) {
  if (process.listenerCount(signal) > 1) return;
  const agents = [...open];
  // Whoever is told twice waits no longer.
  agents.forEach(forget);
  await Promise.all(agents.map((agent) => Promise.race([agent.close(), agent.expired()])));
  process.kill(process.pid, signal);
}

function remember(agent) {
  if (open.size === 0) SIGNALS.forEach((signal) => process.on(signal, told));
  open.add(agent);
}

function forget(agent) {
  if (open.delete(agent) && open.size === 0) SIGNALS.forEach((signal) => process.off(signal, told));
}

/** True if the work says that its term is over, by the fence, `ensure`, or what its signal has aborted. */
function isOver(error, term) {
  return error instanceof Fenced || (!term.isHeld() && (error instanceof NotHeld || error?.name === 'AbortError'));
}

export class Agent {
  #place;
  #releaseOnExit;
  #closed = new AbortController();
  #claims = new Set();
  #calls = new Set();

  constructor({ address, token, tokenFile, sigterm = true, releaseOnExit = false } = {}) {
    this.#place = new Place({ address, token, tokenFile });
    this.#releaseOnExit = releaseOnExit;
    if (sigterm) remember(this);
  }

  lead(lock, work, options = {}) {
    const wanted = { locks: [lock], ...(this.#releaseOnExit && { on_exit: 'release', pid: process.pid }) };
    return this.#call(options, async (signal) => {
      for (let wait = PAUSE_MIN; !signal.aborted; ) {
        const claim = this.#claim('/v1/lead', wanted, options, signal);
        let term;
        try {
          term = await claim.gains();
          if (term) await work(term);
        } catch (error) {
          if (!term || !isOver(error, term)) throw error;
        } finally {
          await this.#end(claim);
        }
        if (claim.error?.isFinal) throw claim.error;
        if (term) {
          wait = PAUSE_MIN;
          continue;
        }
        await pause(wait * (0.5 + Math.random()), signal);
        wait = Math.min(wait * 2, PAUSE_MAX);
      }
    });
  }

  acquire(lock, work, { wait = 0, ...options } = {}) {
    const wanted = { lock, wait: `${Math.round(wait)}ms` };
    return this.#call(options, async (signal) => {
      const claim = this.#claim('/v1/acquire', wanted, options, signal);
      try {
        return await work(await claim.acquire(wait));
      } finally {
        await this.#end(claim);
      }
    });
  }

  runOnce(lock, work, { slot, every, attempts, retryPause, atMost, skipIfRunning, ...options } = {}) {
    const text = (milliseconds) => (milliseconds === undefined ? undefined : `${Math.round(milliseconds)}ms`);
    const wanted = { lock, slot: slot?.toISOString(), every: text(every), attempts };
    Object.assign(wanted, { retry_pause: text(retryPause), at_most: text(atMost), skip_if_running: skipIfRunning });
    return this.#call(options, async (signal) => {
      const claim = this.#claim('/v1/run-once', wanted, options, signal);
      let outcome = 'failed';
      let said;
      try {
        const term = await claim.gains();
        if (!term) {
          if (claim.error && !signal.aborted) throw claim.error;
          return claim.reason ?? 'gone';
        }
        await work(term);
        if (!term.isHeld()) return claim.reason ?? 'gone';
        outcome = 'done';
      } finally {
        said = await this.#end(claim, outcome);
      }
      return said;
    });
  }

  async close() {
    this.#closed.abort();
    await Promise.allSettled(this.#calls);
    forget(this);
  }

  async [Symbol.asyncDispose ?? 'asyncDispose']() {
    await this.close();
  }

  /** Waits until no term of this moment is held any more by its deadline, and no release is under way. */
  async expired() {
    const claims = [...this.#claims];
    // Without a term no work can be in the way of letting go.
    const left = claims.map((claim) => claim.term?.remaining() ?? Claim.openMax);
    await pause(Math.max(0, ...left), new AbortController().signal);
    await Promise.all(claims.map((claim) => claim.leaving));
  }

  async #call(options, work) {
    if (this.#closed.signal.aborted) throw new NotHeld('the agent is closed');
    const ended = new AbortController();
    const ends = () => ended.abort();
    const signals = [this.#closed.signal, ...(options.signal ? [options.signal] : [])];
    signals.forEach((signal) => signal.addEventListener('abort', ends, { once: true }));
    if (options.signal?.aborted) ends();
    const call = work(ended.signal);
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
      signals.forEach((signal) => signal.removeEventListener('abort', ends));
    }
  }

  #claim(path, wanted, { id, lease = 10_000 }, signal) {
    const claim = new Claim(this.#place, path, id ? { ...wanted, id } : wanted, lease);
    this.#claims.add(claim);
    const ends = () => claim.end();
    signal.addEventListener('abort', ends, { once: true });
    claim.forget = () => signal.removeEventListener('abort', ends);
    if (signal.aborted) claim.end();
    return claim;
  }

  async #end(claim, outcome) {
    const said = await claim.letGo(outcome);
    claim.forget();
    this.#claims.delete(claim);
    return said;
  }
}
