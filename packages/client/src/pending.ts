import { Deadline } from './deadline.ts';
import type { EventType } from './generated/calls.ts';
import { TimeLimitError } from './problem.ts';
import type { Attempts } from './retrying.ts';

/** An event to be published. */
export interface NewEvent<Data = unknown> {
  type: EventType;
  /** An https URL. */
  url: string;
  /** 1 to 64 visible ASCII characters other than `"` and `\`; unless given, the bus makes one. */
  id?: string | undefined;
  /** Milliseconds since 1970. Unless given, when the bus gets the event, or for a delayed event, when it is due. */
  timestamp?: number | undefined;
  /** When to publish the event, up to a year ahead: `at` in ms since 1970, or `delay` in ms after the bus gets it. */
  at?: number | undefined;
  delay?: number | undefined;
  /** Any JSON. */
  data?: Data | undefined;
}

/** The state of the request that carries an event, or that the event waits for. */
export type Progress = Pick<Attempts, 'mayBeDone' | 'lastFailure'>;

export interface PendingParts {
  topic: string;
  event: NewEvent;
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

/** A publish that is neither stored nor refused yet. */
export class Pending {
  readonly topic: string;
  /** Resolves when the event is stored. */
  readonly stored: Promise<void>;
  /** The event as JSON; empty until it is written. */
  text = '';
  readonly #event: NewEvent;
  readonly #giveUp: (pending: Pending) => Progress;
  readonly #deadline: Deadline;
  #resolve!: () => void;
  #reject!: (error: unknown) => void;

  /**
   * Calls `giveUp` when the time limit or the signal ends the publish; `giveUp` returns the state of its request. Throws
   * the reason of a signal that is aborted already.
   */
  constructor(parts: PendingParts, giveUp: (pending: Pending) => Progress) {
    this.topic = parts.topic;
    this.#event = parts.event;
    this.#giveUp = giveUp;
    this.#deadline = new Deadline(parts.timeoutMs, parts.signal, this);
    this.stored = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  aborted(reason: unknown): void {
    this.#giveUp(this);
    this.#reject(reason);
  }

  late(timeoutMs: number): void {
    const { mayBeDone, lastFailure: cause } = this.#giveUp(this);
    this.#reject(new TimeLimitError(timeoutMs, { mayBeDone, cause }));
  }

  /** True if the event is to be published later. */
  get isTimed(): boolean {
    return this.#event.at !== undefined || this.#event.delay !== undefined;
  }

  /** Writes the event as JSON. Throws what JSON.stringify throws. */
  write(): void {
    this.text = JSON.stringify(this.#event) ?? 'null';
  }

  resolve(): void {
    this.#deadline.clear();
    this.#resolve();
  }

  reject(error: unknown): void {
    this.#deadline.clear();
    this.#reject(error);
  }
}
