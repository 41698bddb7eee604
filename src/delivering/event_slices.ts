import type { Keyspace } from '../store/keys.ts';
import type { Partition } from '../store/partition.ts';
import { BATCH_HEADER_LENGTH } from './batch.ts';
import { eventJson } from './legacy_event.ts';

/** Maximum events that one command reads. By default, an event holds up to 64 KiB of data. */
const SLICE = 20;

/**
 * Yields the first `count` events of a batch or dead letter, a few at a time, each as the JSON text that is
 * delivered, or as `{"undecodable": base64}`. Ends early if the list is deleted meanwhile.
 */
export async function* eventSlices(
  partition: Partition,
  listOf: (keys: Keyspace) => string,
  count: number,
): AsyncGenerator<string[]> {
  for (let at = BATCH_HEADER_LENGTH; at < BATCH_HEADER_LENGTH + count; at += SLICE) {
    const to = Math.min(at + SLICE, BATCH_HEADER_LENGTH + count) - 1;
    const stored = await partition.command((redis, keys) => redis.lrangeBuffer(listOf(keys), at, to));
    if (stored.length === 0) return;
    yield stored.map(shown);
  }
}

function shown(stored: Buffer): string {
  try {
    return eventJson(stored).toString();
  } catch {
    return JSON.stringify({ undecodable: stored.toString('base64') });
  }
}
