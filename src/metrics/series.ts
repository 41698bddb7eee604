import { REMOVED } from '../ids.ts';
import { packField, type Tags } from './counter_hash.ts';
import { FAMILIES } from './families.ts';

type Subject = { topic: string } | { subscriber: string };

/**
 * The tag that names the topic or subscriber of a counter. The tag `queue` is from the Ruby Routemaster, whose counters
 * this bus continues.
 */
const TAGS = { topic: 'topic', subscriber: 'queue' } as const;

/**
 * All values that the tags `status` and `reason` can have. `seriesOf` needs them to list all counters of a topic or
 * subscriber that is removed. If a value is missing here, the counters with this value stay until the next sweep finds
 * them.
 */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  status: ['success', 'failure'],
  reason: ['max_attempts', 'max_age', 'failed_in_bus', 'killed_worker', 'join_refused', 'buried'],
};

/**
 * Returns `topic` if each topic has a counter of this name, or `subscriber` if each subscriber has one. Otherwise
 * returns undefined.
 */
function kindOf(name: string): keyof typeof TAGS | undefined {
  const { type, labels = {} } = FAMILIES[name] ?? {};
  if (type !== 'counter') return undefined;
  if (labels.topic === 'topic') return 'topic';
  return labels.queue === 'subscriber' ? 'subscriber' : undefined;
}

/**
 * Returns the topic or subscriber of a counter. Undefined for a counter of the whole bus, and for one that sums up
 * removed topics or subscribers.
 */
export function subjectOf(name: string, tags: Tags): Subject | undefined {
  const kind = kindOf(name);
  const value = kind && tags[TAGS[kind]];
  if (!kind || value === undefined || value === REMOVED) return undefined;
  return kind === 'topic' ? { topic: value } : { subscriber: value };
}

/**
 * True for the counter that keeps the counts of all removed topics, or of all removed subscribers. Without it, the sum
 * over all topics or subscribers would fall when one is removed. Each partition has its own counter for this.
 */
export function isTotalOfRemoved(name: string, tags: Tags): boolean {
  const kind = kindOf(name);
  return kind !== undefined && tags[TAGS[kind]] === REMOVED;
}

/**
 * When a topic or subscriber is removed, each of its counters is added to a total. The total of a topic's counter, for
 * example, is the same counter of the topic `(removed)`. Returns the field of this total in the hash `counters`. For a
 * counter of the whole bus, returns the counter's own field.
 */
export function totalField(name: string, tags: Tags): Buffer {
  const kind = kindOf(name);
  return packField(name, kind ? { ...tags, [TAGS[kind]]: REMOVED } : tags);
}

/**
 * Returns all counters that a topic or a subscriber can have. `field` is the counter's field in the hash `counters`,
 * and `total` is the field of its total (see `totalField`).
 */
export function seriesOf(subject: Subject): (Subject & { field: Buffer; total: Buffer })[] {
  const [kind, value] = Object.entries(subject)[0] as [keyof typeof TAGS, string];
  const names = Object.keys(FAMILIES).filter((name) => kindOf(name) === kind);
  return names.flatMap((name) =>
    tagsBesides(name, TAGS[kind]).map((others) => {
      const tags = { ...others, [TAGS[kind]]: value };
      return { field: packField(name, tags), total: totalField(name, tags), ...subject };
    }),
  );
}

/** Returns all combinations of values that the tags of a counter can have, without the tag `subjectTag`. */
function tagsBesides(name: string, subjectTag: string): Tags[] {
  const others = Object.keys(FAMILIES[name]?.labels ?? {}).filter((tag) => tag !== subjectTag);
  let combinations: Tags[] = [{}];
  for (const tag of others)
    combinations = combinations.flatMap((each) =>
      (VALUES[tag] ?? []).map((value) => ({ ...each, [tag]: value })),
    );
  return combinations;
}
