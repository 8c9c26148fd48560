// A claim under a name of its own, its stream and its heartbeats.
import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import { ANSWER_MAX, AgentError, SILENCE_MAX } from './http.js';
import { NotHeld, Term, now } from './term.js';

export const PAUSE_MIN = 50;
/** Waits for so many milliseconds; false if the signal came first. */
export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const ends = () => settle(false);
    const timer = setTimeout(() => settle(true), milliseconds);
    function settle(value) {
      clearTimeout(timer);
      signal.removeEventListener('abort', ends);
      resolve(value);
    }
    signal.addEventListener('abort', ends, { once: true });
  });
}

export class Claim {
  /** So long a client that lets go waits for the answer to what it asked before. A test of that waits longer. */
  static openMax = 2_000;
  /** What becomes of its release, once that has begun. */
  leaving;
  #place;
  #path;
  #wanted;
  #every;
  #name = randomBytes(16).toString('hex');
  #stream = new AbortController();
  #over = new AbortController();
  #opened = Promise.resolve();
  #begins;

  constructor(place, path, wanted, lease) {
    this.#place = place;
    this.#path = path;
    this.#wanted = { ...wanted, lease: `${Math.round(lease)}ms`, claim: this.#name };
    this.#every = lease / 4;
  }

  /** Contends by a stream. Returns the first term, or nothing if the stream ends without one. */
  async gains() {
    // The call was over before it began.
    if (this.#over.signal.aborted) return undefined;
    const begun = new Promise((resolve) => (this.#begins = resolve));
    this.#follow();
    this.#beat();
    return begun;
  }

  /** Asks once; again under the same name where the answer was lost. */
  async acquire(wait) {
    for (let attempt = 1; ; attempt++) {
      try {
        const choices = { limit: wait + ANSWER_MAX, signal: this.#over.signal };
        this.#gained(await this.#place.ask('POST', this.#path, this.#body(), choices));
        this.#beat();
        return this.term;
      } catch (error) {
        if (this.#over.signal.aborted || error.code === 'held') throw new NotHeld(error.message);
        if (error instanceof AgentError || attempt === 3) throw error;
        await pause(PAUSE_MIN, this.#over.signal);
      }
    }
  }

  /** Ends the term, before the work has stopped. */
  end() {
    this.#over.abort();
    this.term?.end();
    this.#begins?.();
  }

  /**
   * Says that the work has stopped. Returns what came of it: `gone` without the agent's answer. Its end stands all the
   * same: then the lease runs out.
   */
  letGo(outcome = 'done') {
    return (this.leaving = this.#letGo(outcome));
  }

  async #letGo(outcome) {
    this.end();
    // Once the stream is there, its request can't come after this one.
    await Promise.race([this.#opened, pause(Claim.openMax, this.#stream.signal)]);
    const told = await this.#place.ask('DELETE', `/v1/claims/${this.#name}?outcome=${outcome}`).catch(() => {});
    this.#stream.abort();
    return told?.outcome ?? 'gone';
  }

  #body() {
    return { ...this.#wanted, clock: { monotonic_ns: String(now()) } };
  }

  async #follow() {
    try {
      const choices = { limit: SILENCE_MAX, signal: this.#stream.signal };
      const opening = this.#place.open('POST', this.#path, this.#body(), choices);
      this.#opened = opening.then(() => {}, () => {});
      const input = await opening;
      // Its errors are those of the lines.
      input.on('error', (error) => (this.error ??= error));
      for await (const line of createInterface({ input })) {
        if (line.startsWith('data: ')) this.#told(JSON.parse(line.slice(6)));
      }
    } catch (error) {
      this.error ??= error;
    } finally {
      // However the stream ends, nothing is held any more.
      this.end();
      this.#stream.abort();
    }
  }

  #told(told) {
    switch (told.event) {
      case 'gained':
        return this.#gained(told);
      case 'renewed':
        return this.term?.renew(told);
      case 'lost':
      case 'ending':
      case 'ended':
        this.reason = told.reason ?? told.event;
        this.end();
    }
  }

  #gained(told) {
    if (this.#over.signal.aborted) return;
    this.term = new Term(told);
    this.term.signal.addEventListener('abort', () => this.end(), { once: true });
    this.#begins?.(this.term);
  }

  async #beat() {
    // The agent can't tell a stopped process by its connection.
    while (await pause(this.#every, this.#over.signal)) {
      try {
        const choices = { limit: this.#every * 2, signal: this.#over.signal };
        const told = await this.#place.ask('POST', `/v1/claims/${this.#name}/heartbeat`, {}, choices);
        if (told.token) this.term?.renew(told);
        if (told.ending && this.term) this.end();
      } catch (error) {
        if (error.code === 'no_such_claim' && this.term) this.end();
      }
    }
  }
}
