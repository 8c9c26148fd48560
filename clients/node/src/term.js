// A term, and the clock by which it is told.
import { uptime } from 'node:os';

/** `os.uptime` counts the time that a machine is suspended, in hundredths of a second. */
const UPTIME_STEP = 10_000_000n;

/** Another program leads, or nobody: the transaction must not commit. */
export class Fenced extends Error {
  name = 'Fenced';
}

/** The lock was not to be had, or the term is over. */
export class NotHeld extends Error {
  name = 'NotHeld';
}

/** CLOCK_MONOTONIC on Linux. */
export const now = () => process.hrtime.bigint();

/** One hold on a lock, with a token that only grows. */
export class Term {
  #monotonic;
  #boottime;
  #over = new AbortController();
  #timer;

  constructor(told) {
    this.lock = told.lock;
    this.token = BigInt(told.token);
    this.fence = told.fence;
    this.renew(told);
  }

  /** Aborts when the term is over. */
  get signal() {
    return this.#over.signal;
  }

  /** True until the deadline. Ask before each step of the work: no timer fires in a process that is stopped. */
  isHeld() {
    if (this.signal.aborted || now() >= this.#monotonic) return false;
    const isLinux = process.platform === 'linux';
    return !isLinux || BigInt(Math.round(uptime() * 1e9)) + UPTIME_STEP < this.#boottime;
  }

  ensure() {
    if (!this.isHeld()) throw this.#ended();
  }

  /**
   * Fails unless the term is still the lock's, and rolls back then. A transaction of Google's client, which must be
   * serializable, commits before the next term begins, or not at all.
   */
  async check(transaction) {
    const { table, lock, timestamp, writer } = this.fence;
    const sql = `SELECT 1 FROM ${table} WHERE name = @lock AND token = @timestamp AND writer = @writer`;
    const types = { lock: 'string', timestamp: 'timestamp', writer: 'string' };
    const [found] = await transaction.run({ sql, params: { lock, timestamp, writer }, types });
    if (found.length > 0) return;
    // It has no effect if this fails, too: nothing commits it.
    await transaction.rollback().catch(() => {});
    throw new Fenced(`lock ${lock}: token ${this.token} is superseded`);
  }

  /** Takes a later deadline of the same term. */
  renew(told) {
    if (BigInt(told.token) !== this.token || this.signal.aborted) return;
    const monotonic = BigInt(told.deadline.monotonic_ns);
    if (this.#monotonic !== undefined && monotonic <= this.#monotonic) return;
    this.#monotonic = monotonic;
    this.#boottime = BigInt(told.deadline.boottime_ns);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(), this.remaining()).unref();
  }

  /** Milliseconds until the deadline. */
  remaining() {
    return Math.max(0, Number((this.#monotonic - now()) / 1_000_000n));
  }

  end() {
    clearTimeout(this.#timer);
    if (!this.signal.aborted) this.#over.abort(this.#ended());
  }

  #ended() {
    return new NotHeld(`lock ${this.lock}: the term of token ${this.token} is over here`);
  }
}
