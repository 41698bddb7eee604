import { packJob, QUEUES } from '../../store/job.ts';
import type { Keyspace } from '../../store/keys.ts';
import { slices, type Walk } from './walk.ts';

/**
 * What a sweep finds while it scans all keys: the names of subscribers, topics, workers and so on. The later parts of
 * the sweep check the data of each name.
 */
export class Seen {
  /** Subscribers with queued batches. */
  readonly queued = new Set<string>();
  /** Subscribers with dead letters. */
  readonly buried = new Set<string>();
  /** Subscribers with waiting jobs. */
  readonly waiting = new Set<string>();
  /** Clients with lists of the topics that they own. */
  readonly owners = new Set<string>();
  /** Clients with joins. */
  readonly joining = new Set<string>();
  /** Joins with open join keys. */
  readonly joins = new Set<string>();
  /** Topics with delayed events. */
  readonly delayed = new Set<string>();
  /** Clients with delayed events. */
  readonly delaying = new Set<string>();
  /**
   * Triggers, each as a member of the sorted set `triggers:due`: the trigger's name, a space, and its client's token.
   */
  readonly triggers = new Set<string>();
  /** Clients with triggers. */
  readonly triggering = new Set<string>();
  /** Delivery logs as `deliveries:logs` lists them: `taken` or `dropped`, a space, and the subscriber's token. */
  readonly logs = new Set<string>();
  /** Workers that hold jobs. */
  readonly workers = new Set<string>();
  /** Batches whose job was not found, at most `maxJobs`. Each is checked again before it is repaired. */
  readonly jobless = new Set<string>();
}

/** Names (in LAYOUT, the table of all Redis keys) of the keys that exist once for each batch. */
const SINGLE = ['dead_letter_about', 'dead_letter', 'attempts', 'batch', 'ruby_batch'] as const;
/** Names (in LAYOUT) of the keys that list the batches or dead letters of one subscriber. */
const INDEXES = ['batches_queued', 'batches_retrying', 'batches_current', 'dead_letters_of'] as const;
/** Names (in LAYOUT) of the keys that list the batches or dead letters of all subscribers. */
const COMMON_INDEXES = [
  ...(['batches_open', 'batches_room', 'batches_closed'] as const),
  ...(['batches_index', 'dead_letters_index'] as const),
];

export async function sweepBatches(walk: Walk, maxJobs: number): Promise<Seen> {
  const { keys } = walk.partition;
  const seen = new Seen();
  for await (const slice of walk.keys()) {
    for (const name of SINGLE) {
      const bids = slice.flatMap((key) => bidIn(key, name, keys) ?? []);
      if (bids.length > 0) await walk.repair('sweep_batches', { where: name, names: bids });
      if (name === 'batch') await noteJobless(walk, bids, seen.jobless, maxJobs);
    }
    for (const key of slice) {
      note(seen, key, keys);
      await sweepIndex(walk, key);
    }
  }
  for (const where of COMMON_INDEXES)
    for await (const names of walk.members(where)) await walk.repair('sweep_batches', { where, names });
  return seen;
}

function bidIn(key: string, name: (typeof SINGLE)[number], keys: Keyspace): string | undefined {
  // The prefix `dead_letter:` also fits a key `dead_letter:about:{bid}`. No batch id contains a colon, so `about:{bid}`
  // is not taken for one.
  const bid = after(key, keys[name](''));
  return bid?.includes(':') ? undefined : bid;
}

async function sweepIndex(walk: Walk, key: string): Promise<void> {
  for (const where of INDEXES) {
    const token = after(key, walk.partition.keys[where](''));
    if (token === undefined) continue;
    for await (const names of walk.members(where, token))
      await walk.repair('sweep_batches', { where, token, names });
  }
}

function note(seen: Seen, key: string, keys: Keyspace): void {
  const add = (set: Set<string>, prefix: string, kind = '') => {
    const name = after(key, prefix);
    if (name !== undefined) set.add(kind + name);
  };
  add(seen.queued, keys.batches_queued(''));
  add(seen.buried, keys.dead_letters_of(''));
  add(seen.waiting, keys.jobs_waiting(''));
  add(seen.owners, keys.topics_owned(''));
  add(seen.joining, keys.joins_of(''));
  add(seen.joins, keys.open_keys(''));
  add(seen.joins, keys.open_keys_since(''));
  add(seen.delayed, keys.delayed_due(''));
  add(seen.delayed, keys.delayed_events(''));
  add(seen.delaying, keys.delayed_held(''));
  add(seen.triggering, keys.triggers_of(''));
  const trigger = after(key, keys.trigger('', '').slice(0, -1));
  if (trigger !== undefined) seen.triggers.add(memberOf(trigger));
  add(seen.logs, keys.deliveries_taken(''), 'taken ');
  add(seen.logs, keys.deliveries_dropped(''), 'dropped ');
  for (const q of QUEUES) add(seen.workers, keys.jobs_pending(q, ''));
}

/**
 * Returns the member `NAME CLIENT` of `triggers:due` that stands for a trigger. `key` is the end of the trigger's own
 * key: `CLIENT:NAME`.
 */
function memberOf(key: string): string {
  const colon = key.lastIndexOf(':');
  return `${key.slice(colon + 1)} ${key.slice(0, colon)}`;
}

/**
 * Collects batches that seem to have no job. Some of them are not wrong: a batch was read a moment before its job, and
 * both may have been deleted in between.
 */
async function noteJobless(walk: Walk, bids: string[], jobless: Set<string>, maxJobs: number): Promise<void> {
  for (const slice of slices(bids)) {
    const jobs = slice.map((bid) => packJob('batch', [bid]));
    const indexed = await walk.skippable(
      walk.ask((redis, keys) => redis.smismember(keys.jobs_index('main'), ...jobs)),
    );
    if (!indexed) return;
    for (const [index, bid] of slice.entries()) {
      if (indexed[index] === 0 && jobless.size < maxJobs) jobless.add(bid);
    }
  }
}

function after(key: string, prefix: string): string | undefined {
  return key.startsWith(prefix) ? key.slice(prefix.length) : undefined;
}
