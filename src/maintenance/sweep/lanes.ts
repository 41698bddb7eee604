import { deliveredBy, SHARES } from '../../store/job.ts';
import { slices, type Walk } from './walk.ts';

/**
 * Repairs what Redis stores about workers: lanes (each subscriber's deliveries in flight), leases (each worker's right
 * to its job) and shares (the workers for all slow subscribers, all failing ones, or all joins). `holding` has the ids
 * of the workers that were seen with a job.
 */
export async function sweepWorkers(walk: Walk, holding: Iterable<string>): Promise<void> {
  const { keys } = walk.partition;
  const workers = new Set(holding);
  const add = async (type: 'set' | 'hash', key: string) => {
    for await (const slice of walk.members(type, key)) for (const each of slice) workers.add(String(each));
  };
  await add('hash', keys.lanes_held());
  for (const share of SHARES) await add('set', keys.share_workers(share));
  await add('hash', keys.leases());
  for (const slice of slices(workers)) {
    const jobs = await walk.ask((redis) =>
      Promise.all(slice.map((worker) => redis.lindexBuffer(keys.jobs_pending('main', worker), 0))),
    );
    const suspects = slice.map((worker, index) => ({
      worker,
      bid: jobs[index] ? deliveredBy(jobs[index]) : '',
    }));
    await walk.repair('sweep_workers', { suspects });
  }
  // The script must run even without workers, because it also checks, for each subscriber, the stored number of
  // deliveries in flight.
  if (workers.size === 0) await walk.repair('sweep_workers', { suspects: [] });
}

/**
 * Restarts the deliveries to subscribers whose jobs all wait. A waiting job becomes instant (ready for a worker) when
 * another job of its subscriber ends, but here none can end. So the script makes one job instant, unless the subscriber
 * is paused. It does the same if the trial job (the only one that is tried while a subscriber fails) is gone.
 */
export async function sweepLanes(walk: Walk, waiting: Iterable<string>): Promise<void> {
  for (const slice of slices(waiting)) await walk.repair('sweep_lanes', { tokens: slice });
  const { keys } = walk.partition;
  for await (const tokens of walk.members('set', keys.subscribers()))
    await walk.repair('sweep_lanes', { tokens });
}
