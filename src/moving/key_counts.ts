import type { FoundKey } from '../store/found_key.ts';
import { type KeyName, LAYOUT } from '../store/keys.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { LENGTH } from './groups.ts';
import { scanned } from './scanning.ts';

/**
 * The approximate number of all keys of a bus and, for each name in COUNTED, the exact numbers of keys and elements.
 */
export interface KeyCounts {
  keys: number;
  counts: Map<KeyName, { keys: number; elements: number }>;
}

type Unit = 'keys' | 'elements' | 'events' | 'records';

/**
 * What a move counts and compares in the source and in the target. Each row has a text for the operator, the name of
 * the keys, and what is counted: the keys, their elements, or the events or records in them. Data that may expire
 * during the move has no row.
 */
const COUNTED: readonly (readonly [what: string, name: KeyName, unit: Unit])[] = [
  ['topics', 'topics', 'elements'],
  ['subscribers', 'subscribers', 'elements'],
  ['subscriptions', 'subscriber_topics', 'elements'],
  ['subscribers of topics', 'topic_subscribers', 'elements'],
  ['batches', 'batch', 'keys'],
  ['events in batches', 'batch', 'events'],
  ['batches indexed', 'batches_queued', 'elements'],
  ['failed attempts', 'attempts', 'elements'],
  ['jobs', 'jobs_index', 'elements'],
  ['jobs scheduled', 'jobs_scheduled', 'elements'],
  ['jobs ready', 'jobs_instant', 'elements'],
  ['jobs of dead workers', 'jobs_pending', 'elements'],
  ['jobs waiting in lanes', 'jobs_waiting', 'elements'],
  ['dead letters', 'dead_letter', 'keys'],
  ['events in dead letters', 'dead_letter', 'events'],
  ['delayed events', 'delayed_due', 'elements'],
  ['texts of delayed events', 'delayed_events', 'elements'],
  ['triggers', 'triggers_of', 'elements'],
  ['joins', 'joins', 'elements'],
  ['open keys of joins', 'open_keys', 'elements'],
  ['drop notices', 'drop_notice', 'keys'],
  ['records of taken batches', 'deliveries_taken', 'records'],
  ['records of dropped batches', 'deliveries_dropped', 'records'],
  ['counters', 'counters', 'elements'],
  ['calls in the audit', 'audit', 'elements'],
];
const COUNTED_NAMES: ReadonlySet<KeyName> = new Set(COUNTED.map(([, name]) => name));
const HEADER_LENGTH = 3;

/** Counts the keys of a bus. */
export async function countKeys(partitions: Partitions): Promise<KeyCounts> {
  const counts: KeyCounts = { keys: 0, counts: new Map() };
  for (const those of partitions.byRedis()) await addKeys(those, counts);
  return counts;
}

/** Adds to `into` the numbers of keys and elements of these partitions, which are in the same Redis. */
async function addKeys(partitions: [Partition, ...Partition[]], into: KeyCounts): Promise<void> {
  // A scan may return a key twice.
  const seen = new Set<string>();
  for await (const keys of scanned(partitions)) {
    into.keys += keys.length;
    const counted = keys.filter((found) => isCounted(found) && !seen.has(found.key) && seen.add(found.key));
    const lengths = await partitions[0].command((redis) =>
      Promise.all(counted.map(({ key, name }) => redis.call(LENGTH[LAYOUT[name].type], key))),
    );
    for (const [index, { name }] of counted.entries()) {
      const count = into.counts.get(name) ?? { keys: 0, elements: 0 };
      into.counts.set(name, { keys: count.keys + 1, elements: count.elements + Number(lengths[index]) });
    }
  }
}

/**
 * True if a key is counted. The jobs of the queue `aux`, which deliver no batch, are not moved, so their keys are not
 * counted.
 */
function isCounted({ name, parts: [q] }: FoundKey): boolean {
  return COUNTED_NAMES.has(name) && !(name.startsWith('jobs_') && q === 'aux');
}

/**
 * Returns the number for each row of COUNTED, by the text of the row, such as `events in batches`. The list of a batch
 * or dead letter begins with HEADER_LENGTH elements that are not events. A delivery log has two elements for each
 * record.
 */
export function countsIn({ counts }: KeyCounts): Map<string, number> {
  return new Map(
    COUNTED.map(([what, name, unit]) => {
      const { keys, elements } = counts.get(name) ?? { keys: 0, elements: 0 };
      const events = elements - HEADER_LENGTH * keys;
      return [what, { keys, elements, events, records: elements / 2 }[unit]];
    }),
  );
}
