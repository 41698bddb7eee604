import { Computing } from './computing.ts';
import { readDefinition } from './definition.ts';
import { timesOf } from './schedule.ts';
import type { StoredTrigger } from './stored_trigger.ts';

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
