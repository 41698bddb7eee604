import type { Delivery } from '../../harness/http/receiver.ts';
import { until } from '../../harness/until.ts';
import { sleep } from '../../src/clock.ts';
import { killOne } from '../kills.ts';
import type { Scenario } from '../scenario.ts';

const LEASE_MS = 2000;
const PER_POST = 10;
/** Time by which an event may seem to come early, as the times of Redis and of this process are rounded. */
const EARLY_MS = 2;
/** Minimum number of kills. Every second hits Redis, the others a worker. */
const MIN_KILLS = { full: 4, quick: 2 };

/** Two workers publish delayed events that are due all the time; one of them, or Redis, is killed again and again. */
export const delayed: Scenario = {
  name: 'delayed',
  title: 'delayed events with random delays, while workers and Redis get SIGKILL again and again',
  events: { full: 20_000, quick: 300 },
  bus: {
    redis: { appendonly: 'yes', appendfsync: 'always' },
    env: { ROUTEMASTER_WORKER_LEASE: String(LEASE_MS / 1000) },
  },
  async run(lab) {
    await lab.start('web');
    const workers = [await lab.start('worker'), await lab.start('worker')];
    const audiences = [
      await lab.subscribe('search', { topic: 'widgets', max: 100, timeout: 20 }),
      await lab.subscribe('mail', { topic: 'widgets', max: 1 }),
    ];
    const random = lab.random.fork('delays');
    const maxDelayMs = lab.quick ? 1500 : 15_000;
    const publishing = lab.publish({
      topic: 'widgets',
      ...{ publishers: 4, perPost: PER_POST, perSecond: lab.quick ? 200 : 500, again: true },
      delayMs: () => random.whole(0, maxDelayMs),
    });
    const { redis, keys } = lab.bus.partitions.ofTopic('widgets');
    const anyWaits = () => redis.zcard(keys.delayed_topics()).catch(() => 1);
    const minKills = MIN_KILLS[lab.quick ? 'quick' : 'full'];
    for (let kill = 1; kill <= minKills || publishing.accepted < lab.events; kill++) {
      await Promise.race([sleep(random.between(300, lab.quick ? 700 : 2500)), publishing.done]);
      const maxOutageMs = lab.quick ? 200 : 1500;
      const killed = await killOne(lab, workers, { nth: kill, redisEvery: 2, maxOutageMs, random });
      lab.say(`killed ${killed}`);
    }
    await publishing.stop();
    await until(async () => (await anyWaits()) === 0, { timeoutMs: 60_000, what: 'no event waits' });
    await lab.settle();

    const early = audiences.flatMap(({ receiver }) => receiver.deliveries.flatMap(earlyEvents));
    lab.bar('none early', early.length === 0, early.slice(0, 3).join(', '));
    lab.noneStoredTwice();
  },
};

/** Returns the events that came before they were due. An event's timestamp is the time at which it is due. */
function earlyEvents({ atMs, events }: Delivery): string[] {
  const arrivedMs = performance.timeOrigin + atMs;
  return events
    .filter(({ t }) => arrivedMs < t - EARLY_MS)
    .map(({ url, t }) => `${url} ${Math.round(t - arrivedMs)} ms`);
}
