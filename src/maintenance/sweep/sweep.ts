import { slicesOf } from '../../chunks.ts';
import type { Partition } from '../../store/partition.ts';
import { type Seen, sweepBatches } from './batches.ts';
import { sweepDelayed } from './delayed.ts';
import type { Finding } from './finding.ts';
import { JobSweep } from './jobs.ts';
import { sweepLanes, sweepWorkers } from './lanes.ts';
import { sweepLeftovers } from './leftovers.ts';
import { Walk } from './walk.ts';

/** The default of `maxJobs`. 200,000 jobs take about 20 MB of the memory of this process. */
const MAX_JOBS = 200_000;
/** Maximum triggers that one script call checks. It is low, because each may have 64 KB: 300 took Redis 55 ms. */
const TRIGGERS = 20;
/** Maximum delivery logs that one script call checks; 50 take Redis about 3 ms. */
const LOGS = 50;

interface SweepOptions {
  /** When this signal is aborted, the sweep ends early and returns the findings so far. */
  signal?: AbortSignal;
  /** Each finding is added to this list right after its repair, so that it is known even if the sweep throws later. */
  findings?: Finding[];
  /** Maximum jobs of a queue that one sweep checks. If the queue has more, each sweep checks a random part of them. */
  maxJobs?: number;
  /**
   * Number of living workers of a Ruby Routemaster. Such a worker finds no batch for a delivery job, and loses the job.
   * So while a Ruby worker lives, the sweep restores delivery jobs to a list that only this bus reads (sweep_jobs.lua).
   */
  rubyWorkers?: number;
}

/**
 * Checks all data of a partition, repairs inconsistencies, and returns what it found. The bus and other sweeps may run
 * meanwhile. Throws StorageUnavailable or StorageFull. If another program has written keys of a wrong type, the sweep
 * checks everything else, and then throws the error of Redis.
 */
export async function sweep(partition: Partition, options: SweepOptions = {}): Promise<Finding[]> {
  const { signal = new AbortController().signal, findings = [], maxJobs = MAX_JOBS, rubyWorkers } = options;
  const walk = new Walk(partition, signal, findings);
  // Keep this order: each part of the sweep relies on the repairs of the earlier parts.
  const seen = await sweepBatches(walk, maxJobs);
  const waitingTokens = seen.of('jobs_waiting');
  await sweepWorkers(walk, seen.of('jobs_pending'));
  const main = new JobSweep(walk, 'main', { waitingTokens, jobless: seen.jobless, maxJobs, rubyWorkers });
  const aux = new JobSweep(walk, 'aux', { waitingTokens: [], jobless: [], maxJobs, rubyWorkers });
  for (const jobs of [main, aux]) await walk.skippable(jobs.run());
  await sweepLanes(walk, waitingTokens);
  await sweepJoins(walk, seen);
  // Gauges, such as the number of queued events, are not checked while a Ruby process uses this Redis. Ruby counts an
  // event in a gauge immediately, but the sweep sees the event only when this bus has converted the Ruby batch. So a
  // correct gauge could seem wrong.
  const isShared = rubyWorkers || findings.some(({ kind }) => kind === 'batch_of_ruby');
  if (!isShared) await sweepGauges(walk, seen);
  await sweepDelayed(walk, seen);
  await sweepTriggers(walk, seen);
  await sweepRecords(walk, seen);
  await sweepLeftovers(walk, seen);
  if (walk.unreadable) throw walk.unreadable;
  return findings;
}

/**
 * Corrects the stored numbers (gauges) of each subscriber's queued batches and events, and of its events in dead
 * letters.
 */
async function sweepGauges(walk: Walk, seen: Seen): Promise<void> {
  const [withBatches, withLetters] = [seen.of('batches_queued'), seen.of('dead_letters_of')];
  await walk.addMembers(withBatches, 'gauge_events');
  await walk.addMembers(withBatches, 'gauge_batches');
  await walk.addMembers(withLetters, 'dead_letters_events');
  for (const [what, tokens] of [
    ['batches', withBatches],
    ['dead_letters', withLetters],
  ] as const)
    for (const token of tokens) {
      if (walk.aborted) return;
      await walk.repair('sweep_gauges', { what, token });
    }
}

/**
 * Repairs what Redis stores about joins and their open keys. A key is what the events of a join have in common, such as
 * an order. It is open until events of all sources of the join have come, or until it expires.
 */
async function sweepJoins(walk: Walk, seen: Seen): Promise<void> {
  for (const client of seen.of('joins_of'))
    for await (const names of walk.members('joins_of', client))
      await walk.repair('sweep_joins', { where: 'joins_of', token: client, names });
  for (const where of ['joins', 'joins_into', 'joins_expiring'] as const)
    for await (const names of walk.members(where)) await walk.repair('sweep_joins', { where, names });
  for (const token of seen.of('open_keys', 'open_keys_since'))
    for (const where of ['open_keys', 'open_keys_since'] as const)
      for await (const names of walk.members(where, token))
        await walk.repair('sweep_joins', { where, token, names });
}

/** Repairs triggers, and their entries in `triggers:due`. */
async function sweepTriggers(walk: Walk, seen: Seen): Promise<void> {
  // The entries that `triggers:due` should have: `{name} {token}` for each trigger that the sweep has seen.
  const triggers = new Set(seen.keys('trigger').map(({ parts: [client, name] }) => `${name} ${client}`));
  const repair = (names: readonly string[]) => repairNames(walk, 'sweep_triggers', names, TRIGGERS);
  const check = (names: string[]) => repair(names.filter((name) => !triggers.has(name)));
  await repair([...triggers]);
  for (const client of seen.of('triggers_of'))
    for await (const names of walk.members('triggers_of', client))
      await check(names.map((name) => `${name} ${client}`));
  for await (const members of walk.members('triggers_due')) await check(members.map(String));
}

/** Corrects the stored number of records in each subscriber's two delivery logs, and then the total of all logs. */
async function sweepRecords(walk: Walk, seen: Seen): Promise<void> {
  const taken = Array.from(seen.of('deliveries_taken'), (token) => `taken ${token}`);
  const dropped = Array.from(seen.of('deliveries_dropped'), (token) => `dropped ${token}`);
  const logs = new Set([...taken, ...dropped]);
  const repair = (names: readonly string[]) => repairNames(walk, 'sweep_deliveries', names, LOGS);
  await repair([...logs]);
  for await (const names of walk.members('deliveries_logs'))
    await repair(names.map(String).filter((name) => !logs.has(name)));
  if (!walk.aborted) await walk.repair('sweep_deliveries', { names: [] });
}

/** Calls a script for these names, a part of them at a time, until the sweep is aborted. */
async function repairNames(
  walk: Walk,
  script: 'sweep_triggers' | 'sweep_deliveries',
  all: readonly string[],
  perCall: number,
): Promise<void> {
  for (const names of slicesOf(all, perCall)) {
    if (walk.aborted) return;
    await walk.repair(script, { names });
  }
}
