// Requests to the agent, over TCP or a Unix socket.
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';

/** The agent sends a comment each 15 s. */
export const SILENCE_MAX = 45_000;
export const ANSWER_MAX = 30_000;

/** No repetition cures these. */
const FINAL = ['bad_request', 'no_such_path', 'no_such_method', 'not_json', 'foreign_host'];

/** The agent refused: `code` is one of those of docs/agent.yaml. */
export class AgentError extends Error {
  constructor(status, code, said) {
    super(`${status} ${code}: ${said}`);
    Object.assign(this, { name: 'AgentError', status, code });
  }

  get isFinal() {
    return FINAL.includes(this.code);
  }
}

/** The agent's address and its secret, which is read anew for each request. */
export class Place {
  #at;
  #token;
  #tokenFile;

  constructor({ address, token, tokenFile }) {
    const { SPINDLE_AGENT, SPINDLE_AGENT_TOKEN, SPINDLE_AGENT_TOKEN_FILE } = process.env;
    const where = address || SPINDLE_AGENT || '127.0.0.1:9465';
    const { hostname, port } = where.startsWith('/') ? {} : new URL(`http://${where}`);
    this.#at = hostname ? { host: hostname.replace(/^\[|\]$/g, ''), port } : { socketPath: where };
    this.#tokenFile = tokenFile || (token ? undefined : SPINDLE_AGENT_TOKEN_FILE);
    this.#token = token || SPINDLE_AGENT_TOKEN;
  }

  /** Sends a request, and returns the stream of its answer, unless that is a refusal. */
  async open(method, path, body, { limit = ANSWER_MAX, signal } = {}) {
    const token = this.#tokenFile ? (await readFile(this.#tokenFile, 'utf8')).trim() : this.#token;
    const headers = { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) };
    const answer = await new Promise((resolve, reject) => {
      const sent = request({ ...this.#at, method, path, headers, signal, agent: false, timeout: limit }, resolve);
      sent.on('timeout', () => sent.destroy(new Error(`the agent was silent for ${limit} ms`)));
      sent.on('error', reject).end(JSON.stringify(body));
    });
    if (answer.statusCode === 200) return answer;
    const said = await text(answer);
    throw new AgentError(answer.statusCode, ...refusal(said));
  }

  /** Sends a request, and returns what its answer says. */
  async ask(method, path, body, choices) {
    return JSON.parse(await text(await this.open(method, path, body, choices)));
  }
}

function refusal(said) {
  try {
    const { code, error } = JSON.parse(said);
    return [code, error];
  } catch {
    return ['unknown', said];
  }
}
