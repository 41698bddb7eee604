import type { BusProcess } from '../harness/processes/bus_process.ts';
import type { Random } from '../harness/random.ts';
import { sleep } from '../src/clock.ts';
import type { Lab } from './lab.ts';

interface Kill {
  /** The number of this kill; the first is 1. */
  nth: number;
  /** If `nth` is a multiple of this number, the kill hits Redis. */
  redisEvery: number;
  /** Maximum time for which Redis is away. */
  maxOutageMs: number;
  random: Random;
}

/** Kills one of the workers, or Redis, and starts it again. Resolves with the name of what was killed. */
export async function killOne(
  lab: Lab,
  workers: BusProcess[],
  { nth, redisEvery, maxOutageMs, random }: Kill,
): Promise<string> {
  if (nth % redisEvery === 0) {
    await lab.bus.redis.kill();
    await sleep(random.between(0, maxOutageMs));
    await lab.bus.redis.restart();
    return 'Redis';
  }
  const index = random.whole(0, workers.length - 1);
  await workers[index]?.kill();
  workers[index] = await lab.start('worker');
  return `worker ${index + 1}`;
}
