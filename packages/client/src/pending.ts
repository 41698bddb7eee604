import { Deadline, type Progress } from './deadline.ts';
import type { EventType } from './generated/calls.ts';

/**
 * A `timestamp` of ten digits is refused. As ms it would be a time in early 1970, so it is probably in seconds. The bus
 * itself accepts such a timestamp, as the Ruby Routemaster does.
 */
const SECONDS = { min: 1e9, max: 1e10 };

/** An event to be published. */
export interface NewEvent<Data = unknown> {
  type: EventType;
  /** The URL of the thing that the event is about. It must be https. */
  url: string;
  /**
   * The id of the event: 1 to 64 visible ASCII characters other than `"` and `\`. The bus makes one if it is missing.
   */
  id?: string | undefined;
  /**
   * The time of the event, in ms since 1970. A time in seconds is refused. If none is given, the event gets the time at
   * which it reaches the bus or, for a delayed event, the time at which the bus publishes it.
   */
  timestamp?: number | undefined;
  /**
   * When to publish the event: at the time `at`, in ms since 1970, or `delay` ms after the bus gets the event. Give
   * `at` or `delay`, not both. The time must be within a year.
   */
  at?: number | undefined;
  delay?: number | undefined;
  /** Any JSON. */
  data?: Data | undefined;
}

export interface PendingParts {
  topic: string;
  event: NewEvent;
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

/** A call of `publish` that has not ended: its event is neither stored nor refused yet. */
export class Pending {
  readonly topic: string;
  readonly stored: Promise<void>;
  /** The event as JSON. It is empty until `write` is called. */
  text = '';
  /** True if the caller no longer waits, because of its time limit or signal. */
  isGivenUp = false;
  readonly #event: NewEvent;
  readonly #deadline: Deadline;
  #resolve!: () => void;
  #reject!: (error: unknown) => void;

  /**
   * Calls `giveUp` if the time limit or the signal ends the publish. `giveUp` returns what is known about the event.
   * Throws if the signal is aborted already, or if the time limit is not allowed.
   */
  constructor(parts: PendingParts, giveUp: (pending: Pending) => Progress) {
    this.topic = parts.topic;
    this.#event = parts.event;
    this.#deadline = new Deadline(parts.timeoutMs, parts.signal, (errorFor) => {
      this.isGivenUp = true;
      this.#reject(errorFor(giveUp(this)));
    });
    this.stored = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** True if the event is delayed: it has `at` or `delay`, so the bus publishes it later. */
  get isTimed(): boolean {
    // The `?.` is for callers in JavaScript, who may give null or undefined as the event. The bus then refuses it.
    return this.#event?.at !== undefined || this.#event?.delay !== undefined;
  }

  /**
   * Sets `text` to the JSON of the event. Throws TypeError for an array or a text, RangeError for a time that is no
   * number or in seconds, and any error of JSON.stringify.
   */
  write(): void {
    if (Array.isArray(this.#event) || typeof (this.#event ?? {}) !== 'object')
      throw new TypeError(
        'the event must be an object, such as { type, url }; publishAll takes several events',
      );
    refuseNoNumber(this.#event);
    const timestamp = this.#event?.timestamp ?? 0;
    if (timestamp >= SECONDS.min && timestamp < SECONDS.max)
      throw new RangeError(`timestamp ${timestamp} looks like seconds; give milliseconds since 1970`);
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

/**
 * Throws RangeError if a time is NaN or infinite, as `delay: Number(undefined)` is. JSON has null for these, which the
 * bus takes for a field that is left out: it would publish the event at once.
 */
function refuseNoNumber(event: NewEvent | undefined): void {
  for (const name of ['timestamp', 'at', 'delay'] as const) {
    const value = event?.[name] ?? 0;
    if (!Number.isFinite(Number(value)))
      throw new RangeError(`${name} must be a whole number of milliseconds, not ${value}`);
  }
}
