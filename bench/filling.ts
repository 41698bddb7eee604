import type { Helper } from '../harness/measuring/helper.ts';
import type { Bus } from './bus.ts';
import type { LoadCalls } from './processes/load.ts';
import type { Reached } from './processes/sink.ts';
import { bulk, TOPIC } from './workload.ts';

const CONNECTIONS = 4;
const BULK = 1000;

/** Publishes this many events to a topic, as fast as possible. */
export async function fill(load: Helper<LoadCalls>, bus: Bus, events: number, topic = TOPIC): Promise<void> {
  const plan = { ...bus.target, path: `/topics/${topic}`, connections: CONNECTIONS };
  const [requests, rest] = [Math.floor(events / BULK), events % BULK];
  if (requests > 0) await load.call('run', { ...plan, requests, ...bulk('NDJSON', BULK) });
  if (rest > 0) await load.call('run', { ...plan, requests: 1, ...bulk('NDJSON', rest) });
}

/** Returns the number of events delivered between the two readings. Throws if there are none. */
export function eventsBetween(from: Reached, to: Reached): number {
  if (to.events <= from.events) throw new Error('all events were delivered before any was to be measured');
  return to.events - from.events;
}
