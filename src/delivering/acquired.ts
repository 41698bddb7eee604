import { Decoder } from '@msgpack/msgpack';
import { type Grant, type GrantHead, readGrant } from './grant.ts';
import type { Acknowledged } from './settlement.ts';
import { readSubscriber, type Subscriber, type SubscriberFields } from './subscriber.ts';

export interface Acquired {
  grants: Grant[];
  /** How many instant jobs were left. */
  left: number;
  /** For each job that was finished. */
  acks: Acknowledged[];
}

/** What `acquire` packs as MessagePack; pairs (acks, subscribers) are flat. */
type Head = [
  left: number,
  atMs: number,
  acks: number[],
  subscribers: (string | SubscriberFields)[],
  grants: GrantHead[],
];

const decoder = new Decoder();

/** Reads the reply of the script `acquire`: a head in MessagePack, then for each grant its job and its event pieces. */
export function readAcquired([head = Buffer.of(), ...rest]: Buffer[]): Acquired {
  const [left, atMs, flatAcks, flatSubscribers, grantHeads] = decoder.decode(head) as Head;
  const acks: Acknowledged[] = [];
  for (let i = 0; i < flatAcks.length; i += 2)
    acks.push({ held: flatAcks[i] === 1, removed: flatAcks[i + 1] as number });
  const subscribers = new Map<string, Subscriber>();
  for (let i = 0; i < flatSubscribers.length; i += 2)
    subscribers.set(flatSubscribers[i] as string, readSubscriber(flatSubscribers[i + 1] as SubscriberFields));
  const buffers = rest.values();
  const grants = grantHeads.map((grantHead) => readGrant(grantHead, buffers, subscribers, atMs));
  return { left, acks, grants };
}
