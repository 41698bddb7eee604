import { eventJson } from './legacy_event.ts';

/** Number of items at the start of a batch's list that are not events: subscriber, time of creation, attempts. */
export const BATCH_HEADER_LENGTH = 3;

/** A ready batch that a worker has acquired. */
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
   * in MessagePack (legacy_event.ts).
   */
  pieces: Buffer[];
}

const [OPENING, COMMA, CLOSING] = [Buffer.from('['), Buffer.from(','), Buffer.from(']')];

/** Returns a JSON array of the events. Throws RangeError if an event in MessagePack cannot be decoded. */
export function batchBody(pieces: readonly Buffer[]): Buffer {
  const parts = pieces.flatMap((piece, index) => [index === 0 ? OPENING : COMMA, eventJson(piece)]);
  return Buffer.concat([...(parts.length === 0 ? [OPENING] : parts), CLOSING]);
}
