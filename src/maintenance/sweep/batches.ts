import type { FoundKey } from '../../store/found_key.ts';
import { packJob } from '../../store/job.ts';
import type { KeyName } from '../../store/keys.ts';
import { slices, type Walk } from './walk.ts';

/** Names (in LAYOUT, the table of all Redis keys) of the keys that later parts of the sweep need. */
const NOTED = [
  ...(['batches_queued', 'dead_letters_of', 'jobs_waiting', 'jobs_pending', 'topics_owned'] as const),
  ...(['joins_of', 'open_keys', 'open_keys_since', 'triggers_of', 'trigger'] as const),
  ...(['delayed_due', 'delayed_events', 'delayed_held', 'deliveries_taken', 'deliveries_dropped'] as const),
];
type NotedName = (typeof NOTED)[number];

/** What a sweep notes for its later parts: keys of the kinds in NOTED, and batches without a job. */
export class Seen {
  readonly #found = new Map(NOTED.map((name): [NotedName, FoundKey[]] => [name, []]));
  /** UIDs of batches for which no job was found, at most `maxJobs`. Each is checked again before its repair. */
  readonly jobless = new Set<string>();

  note(found: ReadonlyMap<KeyName, FoundKey[]>): void {
    for (const [name, keys] of this.#found) keys.push(...(found.get(name) ?? []));
  }

  /** Returns the keys of the kind `name`. A key may come twice, because SCAN may return it twice. */
  keys(name: NotedName): readonly FoundKey[] {
    return this.#found.get(name) ?? [];
  }

  /** Returns the last variable part of each noted key of these kinds, such as the token in `topics:owned:{token}`. */
  of(...names: NotedName[]): Set<string> {
    return new Set(names.flatMap((name) => this.keys(name)).map(({ parts }) => parts.at(-1) ?? ''));
  }
}

/** Names (in LAYOUT) of the keys that have the data of one batch or one dead letter. */
const SINGLE = ['dead_letter_about', 'dead_letter', 'attempts', 'batch', 'ruby_batch'] as const;
/** Names (in LAYOUT) of the keys that list the batches or dead letters of one subscriber. */
const INDEXES = ['batches_queued', 'batches_retrying', 'batches_current', 'dead_letters_of'] as const;
/** Names (in LAYOUT) of the keys that list the batches or dead letters of all subscribers. */
const COMMON_INDEXES = [
  ...(['batches_open', 'batches_room', 'batches_closed'] as const),
  ...(['batches_index', 'dead_letters_index'] as const),
];

export async function sweepBatches(walk: Walk, maxJobs: number): Promise<Seen> {
  const seen = new Seen();
  for await (const keys of walk.keys()) {
    const found = Map.groupBy(keys, ({ name }) => name);
    seen.note(found);
    for (const where of SINGLE) {
      const names = (found.get(where) ?? []).map(({ parts: [bid = ''] }) => bid);
      if (names.length > 0) await walk.repair('sweep_batches', { where, names });
      if (where === 'batch') await noteJobless(walk, names, seen.jobless, maxJobs);
    }
    for (const where of INDEXES)
      for (const { parts } of found.get(where) ?? []) {
        const [token = ''] = parts;
        for await (const names of walk.members(where, token))
          await walk.repair('sweep_batches', { where, token, names });
      }
  }
  for (const where of COMMON_INDEXES)
    for await (const names of walk.members(where)) await walk.repair('sweep_batches', { where, names });
  return seen;
}

/**
 * Adds batches without a job to `jobless`. They are checked again before their repair: some may just have been deleted,
 * together with their jobs.
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
