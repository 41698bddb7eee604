import { type Grant, readGrant } from './grant.ts';
import { ReplyReader } from './reply_reader.ts';
import type { Acknowledged } from './settlement.ts';
import { readSubscriber, type Subscriber } from './subscriber.ts';

export interface Acquired {
  grants: Grant[];
  /** How many instant jobs were left. */
  left: number;
  /** For each job that was finished. */
  acks: Acknowledged[];
}

/** What the script `acquire` answers, in MessagePack. */
export function readAcquired(reply: Buffer): Acquired {
  const reader = new ReplyReader(reply);
  reader.arrayLength();
  const [left, atMs] = [reader.integer(), reader.integer()];
  const acks = reader.list(2, () => ({ held: reader.integer() === 1, removed: reader.integer() }));
  const subscribers = new Map(
    reader.list(2, (): [string, Subscriber] => [reader.string(), readSubscriber(reader)]),
  );
  const grants = reader.list(1, () => readGrant(reader, subscribers, atMs));
  return { left, acks, grants };
}
