import { Packed } from '../store/packed.ts';
import type { ScriptReply } from '../store/script_values.ts';
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

/** What the script `acquire` answers: MessagePack that tells of all, then the events of each batch, in pieces. */
export function readAcquired(reply: ScriptReply): Acquired {
  const [about, ...pieces] = reply as [about: Buffer, ...Buffer[]];
  const reader = new ReplyReader(about);
  let read = 0;
  const nextPieces = (count: number) => {
    read += count;
    return pieces.slice(read - count, read).map(Packed.of);
  };
  reader.arrayLength();
  const [left, atMs] = [reader.integer(), reader.integer()];
  const acks = reader.list(2, () => ({ held: reader.integer() === 1, removed: reader.integer() }));
  const subscribers = new Map(
    reader.list(2, (): [string, Subscriber] => [reader.string(), readSubscriber(reader)]),
  );
  const grants = reader.list(1, () => readGrant(reader, subscribers, nextPieces, atMs));
  return { left, acks, grants };
}
