import { deliveredBy, SHARES } from '../../store/job.ts';
import { slices, type Walk } from './walk.ts';

/**
 * Repairs what Redis stores about workers: their leases, the lanes (deliveries of one subscriber) and the shares in
 * which they count. `holding` has the workers that were seen with a job.
 */
export async function sweepWorkers(walk: Walk, holding: Iterable<string>): Promise<void> {
  const { keys } = walk.partition;
  const workers = new Set(holding);
  await walk.addMembers(workers, 'lanes_held');
  for (const share of SHARES) await walk.addMembers(workers, 'share_workers', share);
  await walk.addMembers(workers, 'leases');
  for (const slice of slices(workers)) {
    const jobs = await walk.ask((redis) =>
      Promise.all(
        slice.map((worker) => walk.skippable(redis.lindexBuffer(keys.jobs_pending('main', worker), 0))),
      ),
    );
    const suspects = slice.map((worker, index) => ({
      worker,
      bid: jobs[index] ? deliveredBy(jobs[index]) : '',
    }));
    await walk.repair('sweep_workers', { suspects });
  }
  // The script is called even if there are no workers, because it also checks the stored number of deliveries in flight
  // of each subscriber.
  if (workers.size === 0) await walk.repair('sweep_workers', { suspects: [] });
}

/**
 * Restarts the deliveries to subscribers whose jobs all wait. A waiting job comes back when another job of its
 * subscriber ends, but here no job can end. So the script makes a waiting job instant, unless the subscriber is paused.
 * It does the same if a subscriber waits for its trial job, the only one that may run, and this job is gone.
 */
export async function sweepLanes(walk: Walk, waiting: Iterable<string>): Promise<void> {
  for (const slice of slices(waiting)) await walk.repair('sweep_lanes', { tokens: slice });
  for await (const tokens of walk.members('subscribers')) await walk.repair('sweep_lanes', { tokens });
}
