import type { Helper } from '../harness/measuring/helper.ts';
import type { Bus } from './bus.ts';
import type { LoadCalls } from './processes/load.ts';
import type { Reached } from './processes/sink.ts';
import { bulk, TOPIC } from './workload.ts';

const CONNECTIONS = 4;
const BULK = 1000;
/** Maximum batches that one script call of the bus opens (lua/publishing/opening.lua). */
const MAX_OPENED = 300;

/** Publishes this many events to a topic, `perPost` in a request, as fast as possible. */
export async function fill(
  load: Helper<LoadCalls>,
  bus: Bus,
  events: number,
  topic = TOPIC,
  perPost = BULK,
): Promise<void> {
  const plan = { ...bus.target, path: `/topics/${topic}`, connections: CONNECTIONS };
  const [requests, rest] = [Math.floor(events / perPost), events % perPost];
  if (requests > 0) await load.call('run', { ...plan, requests, ...bulk('NDJSON', perPost) });
  if (rest > 0) await load.call('run', { ...plan, requests: 1, ...bulk('NDJSON', rest) });
}

/**
 * Returns how many events a request may have so that the bus opens all their batches when they are published. If a
 * script call would open more than MAX_OPENED batches, the bus stores one long batch and cuts it when it delivers,
 * which would count as work of the deliveries. One call can have the requests of all connections.
 */
export function perPostFor(subscribers: number, max: number): number {
  return Math.min(BULK, Math.max(1, Math.floor((MAX_OPENED * max) / CONNECTIONS / subscribers)));
}

/** Returns the number of events delivered between the two readings. Throws if there are none. */
export function eventsBetween(from: Reached, to: Reached): number {
  if (to.events <= from.events) throw new Error('all events were delivered before any was to be measured');
  return to.events - from.events;
}
