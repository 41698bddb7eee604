import { Computing } from './computing.ts';
import { readDefinition } from './definition.ts';
import { timesOf } from './schedule.ts';
import type { StoredTrigger } from './stored_trigger.ts';

/**
 * Returns the next `count` due times (ms) of a trigger, or fewer if its schedule ends. Computing one time may take some
 * ms, so other requests get their turn before each (`whenFree`). The whole computation counts as `priceInCalls` calls
 * in the rate limit of the caller.
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
