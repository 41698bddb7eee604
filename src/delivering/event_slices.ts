import type { Keyspace } from '../store/keys.ts';
import type { Partition } from '../store/partition.ts';
import { storedEvents } from './batch.ts';
import { eventJson } from './legacy_event.ts';

/**
 * Maximum events that one command reads. By default an event has at most 64 KiB of data, so 20 events have about 1.3
 * MB.
 */
const EVENTS_PER_READ = 20;

/**
 * Yields the first `count` events of a batch or dead letter, some at a time. Each is the JSON text that is delivered,
 * or `{"undecodable": base64}`. Ends early if the batch or letter is deleted meanwhile.
 */
export async function* eventSlices(
  partition: Partition,
  listOf: (keys: Keyspace) => string,
  count: number,
): AsyncGenerator<string[]> {
  for await (const stored of storedEvents(partition, listOf, count, EVENTS_PER_READ)) yield stored.map(shown);
}

function shown(stored: Buffer): string {
  try {
    return eventJson(stored).toString();
  } catch {
    return JSON.stringify({ undecodable: stored.toString('base64') });
  }
}
