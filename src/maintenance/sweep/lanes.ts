import { bidOf, SHARES } from '../../store/job.ts';
import { slices, type Walk } from './walk.ts';

/**
 * Repairs what Redis stores about each worker: its lease, the subscriber to which it delivers, and its share. A share
 * (one of SHARES) is a group of workers with a maximum size, such as those that deliver to slow subscribers. `holding`
 * has the workers that the sweep saw with a job.
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
 * Restarts deliveries that would never go on by themselves. In one case, all jobs of a subscriber wait until another of
 * its jobs ends, but no such job is left. In the other case, the subscriber has a probe, which is the only job that may
 * run next, but this job no longer exists.
 */
export async function sweepLanes(walk: Walk, waitingTokens: Iterable<string>): Promise<void> {
  for (const slice of slices(waitingTokens)) await walk.repair('sweep_lanes', { tokens: slice });
  for await (const tokens of walk.members('subscribers')) await walk.repair('sweep_lanes', { tokens });
}
