import { type KeyName, LAYOUT } from '../store/keys.ts';
import type { Partition } from '../store/partition.ts';
import type { FoundKey } from './found_key.ts';
import { scanned } from './scanning.ts';
import { pipelined } from './sums.ts';

/** How many keys there are of each name, and how many elements they have together. */
export type Census = Map<KeyName, { keys: number; elements: number }>;

const LENGTH = { list: 'LLEN', set: 'SCARD', hash: 'HLEN', zset: 'ZCARD', stream: 'XLEN' } as const;

/** Counts the keys of these partitions, which are in one Redis. Redis scans its keys once. */
export async function countKeys(partitions: readonly Partition[], into: Census = new Map()): Promise<Census> {
  const [first] = partitions;
  if (!first) return into;
  const seen = new Set<string>();
  const prefixes = partitions.map(({ prefix }) => prefix);
  for await (const { keys } of scanned(first, prefixes)) {
    // A scan may return a key twice.
    const fresh = keys.filter((found) => !isForgotten(found) && !seen.has(found.key) && seen.add(found.key));
    const lengths = await pipelined(first, fresh, (pipeline, { key, name }) => {
      const { type } = LAYOUT[name];
      return type === 'string' ? pipeline.exists(key) : pipeline.call(LENGTH[type], key);
    });
    for (const [index, { name }] of fresh.entries()) {
      const count = into.get(name) ?? { keys: 0, elements: 0 };
      into.set(name, { keys: count.keys + 1, elements: count.elements + Number(lengths[index]) });
    }
  }
  return into;
}

/** True for the queue `aux`, whose jobs tickers put anew. */
function isForgotten({ name, parts: [q] }: FoundKey): boolean {
  return name.startsWith('jobs_') && q === 'aux';
}

interface Counted {
  what: string;
  of: (census: Census) => number;
}

const none = { keys: 0, elements: 0 };
const elements = (what: string, name: KeyName): Counted => ({
  what,
  of: (census) => (census.get(name) ?? none).elements,
});
const HEADER_LENGTH = 3;
const keys = (what: string, name: KeyName): Counted => ({
  what,
  of: (census) => (census.get(name) ?? none).keys,
});
const events = (what: string, name: KeyName): Counted => ({
  what,
  of: (census) => {
    const count = census.get(name) ?? none;
    return count.elements - HEADER_LENGTH * count.keys;
  },
});

/** What must be as many in the target as in the source. Nothing of it expires by itself. */
const COUNTED: readonly Counted[] = [
  elements('topics', 'topics'),
  elements('subscribers', 'subscribers'),
  elements('subscriptions', 'subscriber_topics'),
  elements('subscribers of topics', 'topic_subscribers'),
  keys('batches', 'batch'),
  events('events in batches', 'batch'),
  elements('batches indexed', 'batches_queued'),
  elements('failed attempts', 'attempts'),
  elements('jobs', 'jobs_index'),
  elements('jobs scheduled', 'jobs_scheduled'),
  elements('jobs ready', 'jobs_instant'),
  elements('jobs of dead workers', 'jobs_pending'),
  elements('jobs waiting in lanes', 'jobs_waiting'),
  keys('dead letters', 'dead_letter'),
  events('events in dead letters', 'dead_letter'),
  elements('delayed events', 'delayed_due'),
  elements('texts of delayed events', 'delayed_events'),
  elements('triggers', 'triggers_of'),
  elements('joins', 'joins'),
  elements('open keys of joins', 'open_keys'),
  keys('drop notices', 'drop_notice'),
  elements('records of taken batches', 'deliveries_taken'),
  elements('records of dropped batches', 'deliveries_dropped'),
  elements('counters', 'counters'),
  elements('calls in the audit', 'audit'),
];

/** Returns what was counted, by what it is. */
export function countsIn(census: Census): Map<string, number> {
  return new Map(COUNTED.map(({ what, of }) => [what, of(census)]));
}
