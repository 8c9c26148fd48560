// Requests to the agent, over TCP or a Unix socket.
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';

/** The agent sends a comment each 15 s. */
export const SILENCE_MAX = 45_000;
export const ANSWER_MAX = 30_000;

/** Without a port `request` takes 80, where another server may answer. */
const ADDRESS = /^(\[[^[\]\s/]+\]|[^[\]\s/:@?#]+):(\d{1,5})$/;

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
    this.#at = place(address || SPINDLE_AGENT || '127.0.0.1:9465');
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

function place(address) {
  if (address.startsWith('/')) return { socketPath: address };
  const [, host, port] = ADDRESS.exec(address) ?? [];
  if (port > 0 && port < 65_536) return { host: host.replace(/^\[|\]$/g, ''), port };
  throw new TypeError(`address ${address}: expected HOST:PORT, or the path of a socket`);
}

function refusal(said) {
  try {
    const { code, error } = JSON.parse(said);
    return [code, error];
  } catch {
    return ['unknown', said];
  }
}
