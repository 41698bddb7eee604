import { readDefinition } from './definition.ts';
import { timesOf } from './schedule.ts';
import type { StoredTrigger } from './stored_trigger.ts';

/**
 * Each time that a request has spent this much CPU time (ms) on computing due times, it counts as one more call in the
 * caller's rate limit. Computing one due time usually takes 50 µs, but some take a few ms.
 */
const MS_PER_CALL = 2;

/** Measures the CPU time that one request spends on computing due times. */
export class Computing {
  #micros = 0;

  run<T>(compute: () => T): T {
    const from = process.threadCpuUsage();
    try {
      return compute();
    } finally {
      const { user, system } = process.threadCpuUsage(from);
      this.#micros += user + system;
    }
  }

  /** The price of the measured CPU time, as a number of calls in the caller's rate limit. It can be a fraction. */
  get priceInCalls(): number {
    return this.#micros / 1000 / MS_PER_CALL;
  }
}

/**
 * Returns the next `count` due times (ms) of a trigger, or fewer if its schedule ends. Computing one time may take some
 * ms, so before each time, `whenFree` lets other requests take their turn. `priceInCalls` is what the whole computation
 * costs, in calls of the caller's rate limit.
 */
export async function nextTimes(
  { text }: StoredTrigger,
  nowMs: number,
  count: number,
  whenFree: () => Promise<void>,
): Promise<{ times: number[]; priceInCalls: number }> {
  const times = timesOf(readDefinition(text).timing);
  const computing = new Computing();
  const found: number[] = [];
  for (let at: number | undefined = nowMs; found.length < count; found.push(at)) {
    const last: number = at;
    await whenFree();
    at = computing.run(() => times.next(last));
    if (at === undefined) break;
  }
  return { times: found, priceInCalls: computing.priceInCalls };
}
