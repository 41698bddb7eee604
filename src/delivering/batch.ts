import { eventJson } from './legacy_event.ts';

/** How many items of a batch's list come before its events: subscriber, time of creation, attempts. */
export const BATCH_HEADER_LENGTH = 3;

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
  /** Its events in the order of acceptance. Each piece is JSON texts joined with commas, or one legacy event. */
  pieces: Buffer[];
}

/** A batch as `acquire` tells of it; its pieces follow in the reply. */
export type BatchHead = [token: string, created: string, attempts: string, count: number, pieces: number];

/** Reads a batch with the pieces that come next in the reply. */
export function readBatch(
  bid: string,
  [token, created, attempts, count, pieces]: BatchHead,
  buffers: Iterator<Buffer>,
): Batch {
  return {
    bid,
    token,
    createdAtMs: Number(created),
    attempts: Number(attempts),
    count,
    // Copied: a slice of the reply would keep all of it in memory while a delivery hangs.
    pieces: Array.from({ length: pieces }, () => Buffer.from(buffers.next().value)),
  };
}

const [OPENING, COMMA, CLOSING] = [Buffer.from('['), Buffer.from(','), Buffer.from(']')];

/** The body of a delivery: a JSON array of the events. Throws RangeError if a legacy event cannot be decoded. */
export function batchBody(pieces: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  for (const piece of pieces) parts.push(parts.length === 0 ? OPENING : COMMA, eventJson(piece));
  if (parts.length === 0) parts.push(OPENING);
  parts.push(CLOSING);
  return Buffer.concat(parts);
}
