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
  /** Packed events, in the order of acceptance. */
  events: Buffer[];
}

/** Reads a batch's list as Redis stores it. */
export function readBatch(bid: string, list: readonly Buffer[]): Batch {
  return {
    bid,
    token: String(list[0]),
    createdAtMs: Number(list[1]),
    attempts: Number(list[2]),
    events: list.slice(HEAD),
  };
}
