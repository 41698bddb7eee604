import { packField, type Tags } from './counter_hash.ts';
import { FAMILIES } from './families.ts';

/** Stands for all topics, or all subscribers, that no longer exist. Neither's name has a parenthesis. */
export const REMOVED = '(removed)';

/** The topic or the subscriber that a counter is about. */
type Subject = { topic: string } | { subscriber: string };

/** The label by which Prometheus shows each kind of subject, and the tag of the counters. */
const TAGS = { topic: 'topic', subscriber: 'queue' } as const;

/** The values of the other tags of counters about a subject. A sweep finds counters that have others. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  status: ['success', 'failure'],
  reason: ['max_attempts', 'max_age', 'failed_in_bus'],
};

/** Returns the kind of subject that the counters of a name are about; undefined if they are about the whole bus. */
function kindOf(name: string): keyof typeof TAGS | undefined {
  const { type, labels = {} } = FAMILIES[name] ?? {};
  if (type !== 'counter') return undefined;
  if (labels.topic === 'topic') return 'topic';
  return labels.queue === 'subscriber' ? 'subscriber' : undefined;
}

/** Returns what a counter is about; undefined if that is the whole bus, or all that was removed. */
export function subjectOf(name: string, tags: Tags): Subject | undefined {
  const kind = kindOf(name);
  const value = kind && tags[TAGS[kind]];
  if (!kind || value === undefined || value === REMOVED) return undefined;
  return kind === 'topic' ? { topic: value } : { subscriber: value };
}

/** Returns the field of the counter to which the counts of a counter move when its subject ends. */
export function totalField(name: string, tags: Tags): Buffer {
  const kind = kindOf(name);
  return packField(name, kind ? { ...tags, [TAGS[kind]]: REMOVED } : tags);
}

/** Returns the fields of all counters of a subject, each with that of its total. */
export function seriesOf(subject: Subject): { field: Buffer; total: Buffer }[] {
  const [kind, value] = Object.entries(subject)[0] as [keyof typeof TAGS, string];
  const names = Object.keys(FAMILIES).filter((name) => kindOf(name) === kind);
  return names.flatMap((name) =>
    tagsBesides(name, TAGS[kind]).map((others) => {
      const tags = { ...others, [TAGS[kind]]: value };
      return { field: packField(name, tags), total: totalField(name, tags) };
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
