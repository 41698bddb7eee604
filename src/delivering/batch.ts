import type { Packed } from '../store/packed.ts';
import type { ReplyReader } from './reply_reader.ts';

/** How many items of a batch's list come before its events: subscriber, time of creation, attempts. */
export const HEAD = 3;

/** A ready batch, as a worker gets it: its attempt is counted already. */
export interface Batch {
  bid: string;
  /** The subscriber's token. */
  token: string;
  /** Milliseconds, by Redis's clock. */
  createdAtMs: number;
  attempts: number;
  /** How many events it has. */
  count: number;
  /**
   * Packed events, one after the other, in the order of acceptance; in pieces of whole events, as they can be more than a string
   * holds.
   */
  events: Packed[];
}

/** Reads a batch, as `acquire` hands it out. `nextPieces`: so many pieces of the events of batches. */
export function readBatch(bid: string, reader: ReplyReader, nextPieces: (count: number) => Packed[]): Batch {
  reader.arrayLength();
  return {
    bid,
    token: reader.string(),
    createdAtMs: Number(reader.string()),
    attempts: Number(reader.string()),
    count: reader.integer(),
    events: nextPieces(reader.integer()),
  };
}
