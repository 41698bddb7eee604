import { ERRORS, type ErrorCode } from '../errors.ts';
import type { Log } from '../log.ts';

/** Minimum time between two lines of the log about calls that were refused with the same code. */
const TOLD_EVERY_MS = 60_000;

/** The error codes with which the bus refuses correct calls, because of its state or its limits. */
export const REFUSALS: ReadonlySet<ErrorCode> = new Set(
  (Object.keys(ERRORS) as ErrorCode[]).filter(
    (code) => code === 'limit_reached' || ERRORS[code].status === 429 || ERRORS[code].status === 503,
  ),
);

export interface RefusalRecorder {
  callRefused(code: ErrorCode): void;
}

/**
 * Counts calls that are refused because of the state or the limits of the bus, and logs how many there were. The first
 * call with an error code is logged immediately. After that, the number of further calls is logged once a minute, so
 * that a flood of them does not fill the log.
 */
export class RefusedCalls {
  readonly #recorder: RefusalRecorder;
  readonly #log: Log;
  /** Codes that were logged in the last minute, each with the number of calls refused after it was logged. */
  readonly #untold = new Map<ErrorCode, number>();

  constructor(recorder: RefusalRecorder, log: Log) {
    this.#recorder = recorder;
    this.#log = log;
  }

  /** Counts a call that was answered with this error code. Ignores codes that are not in REFUSALS. */
  count(code: ErrorCode): void {
    if (!REFUSALS.has(code)) return;
    this.#recorder.callRefused(code);
    const untold = this.#untold.get(code);
    if (untold === undefined) this.#tell(code, 1);
    else this.#untold.set(code, untold + 1);
  }

  #tell(code: ErrorCode, calls: number): void {
    this.#log.warn({ code, calls }, 'refused calls');
    this.#untold.set(code, 0);
    setTimeout(() => {
      const untold = this.#untold.get(code) ?? 0;
      this.#untold.delete(code);
      if (untold > 0) this.#tell(code, untold);
    }, TOLD_EVERY_MS).unref();
  }
}
