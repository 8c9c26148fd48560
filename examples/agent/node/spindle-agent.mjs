// A term held through `spindle agent`: a file to copy.
import { setTimeout as sleep } from 'node:timers/promises';

const sql = 'SELECT 1 FROM locktable WHERE name = @lock AND token = @timestamp AND writer = @writer';
const types = { lock: 'string', timestamp: 'timestamp', writer: 'string' };

/** Another program leads, or nobody. */
export class Fenced extends Error {}

/** Fails unless the term is still the lock's; the transaction commits before the next one begins, or not at all. */
export async function check(transaction, { token, fence: { lock, timestamp, writer } }) {
  const [found] = await transaction.run({ sql, params: { lock, timestamp, writer }, types });
  if (found.length === 0) throw new Fenced(`token ${token} is superseded`);
}

/** Contends for a lock for good. */
export class Leader {
  #agent;
  #held;
  #claim;

  constructor(lock, id, agent = process.env.SPINDLE_AGENT ?? '127.0.0.1:9465') {
    this.#agent = `http://${agent}`;
    this.#follow({ locks: [lock], id, lease: '4s', heartbeat_timeout: '2s' });
    this.#beat();
  }

  /** Returns the term that is held now. On Linux this clock is CLOCK_MONOTONIC. */
  term() {
    return this.#held && process.hrtime.bigint() < BigInt(this.#held.deadline.monotonic_ns) ? this.#held : undefined;
  }

  async #follow(wanted) {
    // However the stream ends, nothing is held until a new one says so.
    for (;; await sleep(200)) {
      try {
        const stream = await this.#ask('/v1/lead', wanted);
        let text = '';
        for await (const part of stream.body.pipeThrough(new TextDecoderStream())) {
          const events = (text + part).split('\n\n');
          text = events.pop();
          const told = events.map((event) => event.match(/event: (.*)\ndata: (.*)/)).filter(Boolean);
          told.forEach(([, event, json]) => this.#told(event, json));
        }
      } catch (error) {
        console.error('agent:', error.message);
      }
      this.#held = this.#claim = undefined;
    }
  }

  #told(event, json) {
    const data = JSON.parse(json);
    this.#claim = data.claim ?? this.#claim;
    this.#held = ['gained', 'renewed'].includes(event) ? { ...this.#held, ...data } : undefined;
  }

  async #beat() {
    // The agent can't tell a stopped process by its connection.
    for (;; await sleep(500)) {
      if (this.#claim) await this.#ask(`/v1/claims/${this.#claim}/heartbeat`, {}).catch(() => {});
    }
  }

  async #ask(path, body) {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await fetch(this.#agent + path, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return answer;
  }
}
