import { packField, type Tags } from './counter_hash.ts';
import { FAMILIES } from './families.ts';

/**
 * Tag value for all topics, or all subscribers, that no longer exist. No topic and no token contains a
 * parenthesis.
 */
const REMOVED = '(removed)';

/** The topic or the subscriber that a counter is about. */
type Subject = { topic: string } | { subscriber: string };

/** The tag of counters that names a topic, and the one that names a subscriber. */
const TAGS = { topic: 'topic', subscriber: 'queue' } as const;

/**
 * All values of the other tags of counters about a topic or a subscriber, so that each such counter can be named
 * when its subject is removed. Counters with other values are left to a sweep.
 */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  status: ['success', 'failure'],
  reason: ['max_attempts', 'max_age', 'failed_in_bus', 'killed_worker', 'join_refused'],
};

/**
 * Returns whether the counters of a name are about topics or subscribers; undefined if they are about the
 * whole bus.
 */
function kindOf(name: string): keyof typeof TAGS | undefined {
  const { type, labels = {} } = FAMILIES[name] ?? {};
  if (type !== 'counter') return undefined;
  if (labels.topic === 'topic') return 'topic';
  return labels.queue === 'subscriber' ? 'subscriber' : undefined;
}

/**
 * Returns the topic or the subscriber that a counter is about; undefined if it is about the whole bus, or
 * about removed ones.
 */
export function subjectOf(name: string, tags: Tags): Subject | undefined {
  const kind = kindOf(name);
  const value = kind && tags[TAGS[kind]];
  if (!kind || value === undefined || value === REMOVED) return undefined;
  return kind === 'topic' ? { topic: value } : { subscriber: value };
}

/**
 * Returns the field of the counter for removed topics or subscribers. A counter's total moves there when its
 * topic or subscriber is removed.
 */
export function totalField(name: string, tags: Tags): Buffer {
  const kind = kindOf(name);
  return packField(name, kind ? { ...tags, [TAGS[kind]]: REMOVED } : tags);
}

/** Returns all counters about a topic or a subscriber, each with its field, its `totalField` and the subject. */
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

/** Returns all combinations of the values of the other tags. */
function tagsBesides(name: string, subjectTag: string): Tags[] {
  const others = Object.keys(FAMILIES[name]?.labels ?? {}).filter((tag) => tag !== subjectTag);
  let combinations: Tags[] = [{}];
  for (const tag of others)
    combinations = combinations.flatMap((each) =>
      (VALUES[tag] ?? []).map((value) => ({ ...each, [tag]: value })),
    );
  return combinations;
}
