/** A transaction of Google's client. */
export interface Transaction {
  run(query: { sql: string; params: object; types: object }): Promise<[unknown[], ...unknown[]]>;
  rollback(): Promise<unknown>;
}

/** Parts of the row that a transaction checks. */
export interface Fence {
  table: string;
  lock: string;
  token: string;
  writer: string;
  timestamp: string;
}

/** The agent refused: `code` is one of those of docs/agent.yaml. */
export class AgentError extends Error {
  readonly status: number;
  readonly code: string;
  /** True if no repetition cures it. */
  readonly isFinal: boolean;
}

/** Another program leads, or nobody: the transaction must not commit. */
export class Fenced extends Error {}

/** The lock was not to be had, or the term is over. */
export class NotHeld extends Error {}

/** One hold on a lock. */
export class Term {
  private constructor();
  readonly lock: string;
  /** A number that only grows. */
  readonly token: bigint;
  readonly fence: Fence;
  /** Aborts when the term is over. */
  readonly signal: AbortSignal;
  /** True until the deadline. Ask before each step of the work: no timer fires in a process that is stopped. */
  isHeld(): boolean;
  /** Throws `NotHeld` unless it is held. */
  ensure(): void;
  /**
   * Fails unless the term is still the lock's, and rolls back then. A transaction of Google's client, which must be
   * serializable, commits before the next term begins, or not at all.
   */
  check(transaction: Transaction): Promise<void>;
}

/** Where the agent is. The environment says what is left out. */
export interface Settings {
  /** `HOST:PORT`, or the path of a socket; `SPINDLE_AGENT`. */
  address?: string;
  /** The agent's secret; `SPINDLE_AGENT_TOKEN`. */
  token?: string;
  /** Its file, which is read anew for each request; `SPINDLE_AGENT_TOKEN_FILE`. */
  tokenFile?: string;
  /** On SIGTERM and SIGINT let go, then end the process, unless it has a handler of its own; true by default. */
  sigterm?: boolean;
  /** Have the agent release for a process that dies, in `lead`: on a Unix socket, and Linux 6.5 or later. */
  releaseOnExit?: boolean;
}

/** Choices of each request. Times are in milliseconds. */
export interface Options {
  /** Names this contender in the table. */
  id?: string;
  /** 10,000 by default. */
  lease?: number;
  /** Ends the call, once the work has stopped. */
  signal?: AbortSignal;
}

export interface RunOptions extends Options {
  /** The time for which the run is scheduled. */
  slot?: Date;
  /** The period of the schedule, in place of the slot. */
  every?: number;
  attempts?: number;
  retryPause?: number;
  atMost?: number;
  skipIfRunning?: boolean;
}

export class Agent {
  constructor(settings?: Settings);
  /**
   * Contends until `close` or the options' signal, and works under each term. The lock is let go of when the work has
   * settled. An error of the work ends `lead`, unless it says that the term is over: then `lead` contends again.
   */
  lead(lock: string, work: (term: Term) => unknown, options?: Options): Promise<void>;
  /** Takes the lock within `wait`, or tries once, and works under its term. `NotHeld` says that it was not to be had. */
  acquire<T>(lock: string, work: (term: Term) => T | Promise<T>, options?: Options & { wait?: number }): Promise<T>;
  /**
   * Runs a slot of a job, unless it runs or ran elsewhere; says `released` once the agent has recorded the run,
   * `skipped`, or why it ended. An error of the work counts as a failure of the run.
   */
  runOnce(lock: string, work: (term: Term) => unknown, options?: RunOptions): Promise<string>;
  /** Aborts each term's signal, waits until the work has settled, and lets go. Don't wait for it inside the work. */
  close(): Promise<void>;
}
