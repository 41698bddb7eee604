import type { Partition } from '../store/partition.ts';
import { eventJson } from './legacy_event.ts';

/** Number of items at the start of a batch's list that are not events: subscriber, time of creation, attempts. */
export const BATCH_HEADER_LENGTH = 3;

export interface Batch {
  bid: string;
  /** The subscriber's token. */
  token: string;
  /** When the batch was opened, in ms by Redis's clock. */
  createdAtMs: number;
  /** Number of attempts so far, including the one that begins now. */
  attempts: number;
  count: number;
  /**
   * The events in the order of acceptance. A piece is either the JSON texts of events, joined with commas, or one event
   * in MessagePack (legacy_event.ts). If the batch is long, this list is empty: `readLongBatch` reads its events.
   */
  pieces: Buffer[];
}

/**
 * Number of events that one command reads. More would block Redis for long: with the default limits, 50 events have up
 * to 3.3 MB, which take Redis 1.5 ms.
 */
const EVENTS_PER_READ = 50;

/**
 * Reads the events of a long batch that a worker holds. The script `acquire` does not read them, because that would
 * block Redis until all are read. Returns fewer than `count` events if the batch was deleted meanwhile.
 */
export async function readLongBatch(partition: Partition, { bid, count }: Batch): Promise<Buffer[]> {
  const slices = storedEvents(partition, partition.keys.batch(bid), count, EVENTS_PER_READ);
  return (await Array.fromAsync(slices)).flat();
}

/**
 * Yields the first `count` events of a batch or dead letter, in the form in which Redis stores them in its list: up to
 * `perRead` events at a time. Ends early if the list is deleted meanwhile.
 */
export async function* storedEvents(
  partition: Partition,
  list: string,
  count: number,
  perRead: number,
): AsyncGenerator<Buffer[]> {
  const end = BATCH_HEADER_LENGTH + count;
  for (let at = BATCH_HEADER_LENGTH; at < end; at += perRead) {
    const to = Math.min(at + perRead, end) - 1;
    const stored = await partition.command((redis) => redis.lrangeBuffer(list, at, to));
    if (stored.length === 0) return;
    yield stored;
  }
}

const [OPENING, COMMA, CLOSING] = [Buffer.from('['), Buffer.from(','), Buffer.from(']')];

/** Returns a JSON array of the events. Throws RangeError if an event in MessagePack cannot be decoded. */
export function batchBody(pieces: readonly Buffer[]): Buffer {
  const parts = pieces.flatMap((piece, index) => [index === 0 ? OPENING : COMMA, eventJson(piece)]);
  return Buffer.concat([...(parts.length === 0 ? [OPENING] : parts), CLOSING]);
}
