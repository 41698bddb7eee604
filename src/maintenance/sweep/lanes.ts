import { bidOf, SHARES } from '../../store/job.ts';
import { slices, type Walk } from './walk.ts';

/**
 * Repairs what Redis stores about each worker: its lease, the subscriber to which it delivers, and its share. A share
 * limits how many workers deliver to one kind of subscribers, such as slow ones (see SHARES). `holding` has the workers
 * that the sweep saw with a job.
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
      bid: (jobs[index] && bidOf(jobs[index])) ?? '',
    }));
    await walk.repair('sweep_workers', { suspects });
  }
  // Without workers the script is called too, because it also recounts the deliveries in flight of each subscriber.
  if (workers.size === 0) await walk.repair('sweep_workers', { suspects: [] });
}

/**
 * Restarts deliveries that would never go on by themselves:
 * - All jobs of a subscriber wait until another of its jobs ends, but no such job is left.
 * - Only one job of a subscriber may run next (its probe), but this job no longer exists.
 */
export async function sweepLanes(walk: Walk, waitingTokens: Iterable<string>): Promise<void> {
  for (const slice of slices(waitingTokens)) await walk.repair('sweep_lanes', { tokens: slice });
  for await (const tokens of walk.members('subscribers')) await walk.repair('sweep_lanes', { tokens });
}
