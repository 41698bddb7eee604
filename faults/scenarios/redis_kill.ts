import type { Random } from '../../harness/random.ts';
import { sleep } from '../../src/clock.ts';
import type { Scenario } from '../scenario.ts';

const RECOVERY_BAR_MS = 5000;
/** Every fifth outage lasts so long that the processes try to reach Redis only rarely. */
const LONG_OUTAGE_MS = 15_000;

/** Redis is killed and restarted under a bus that publishes and delivers. */
export const redisKill: Scenario = {
  name: 'redis-kill',
  title: 'Redis gets SIGKILL again and again, and restarts from its AOF (appendfsync always)',
  events: { full: 10_000, quick: 200 },
  bus: { redis: { appendonly: 'yes', appendfsync: 'always' }, env: { ROUTEMASTER_WORKER_LEASE: '3' } },
  async run(lab) {
    const processes = [await lab.start('web'), await lab.start('worker')];
    const { receiver } = await lab.subscribe('search', { topic: 'widgets', timeout: 20, max: 10 });
    const random = lab.random.fork('kills');
    const kills = lab.quick ? 2 : 20;
    const publishing = lab.publish({ topic: 'widgets', publishers: 4, perSecond: 400 });
    for (let kill = 1; kill <= kills; kill++) {
      await publishing.reaches((lab.events / (kills + 1)) * kill);
      await sleep(random.between(0, 100));
      await lab.bus.redis.kill('SIGKILL');
      await publishing.isRefused();
      await sleep(outageMs(kill, random, lab.quick));
      await lab.bus.redis.restart();
      const backMs = performance.now();
      const tookMs = await lab.worksAgain(backMs, publishing, receiver);
      lab.say(`Redis is back (${kill} of ${kills}); the bus works ${Math.round(tookMs)} ms later`);
    }
    lab.sayTornEnds();
    await publishing.reaches(lab.events);
    await publishing.stop();
    await lab.settle();
    lab.noneExited(processes);
    const recoveryMs = lab.recoveryMs ?? 0;
    lab.bar('recovery ≤ 5 s', recoveryMs <= RECOVERY_BAR_MS, `${Math.round(recoveryMs)} ms`);
    lab.noneStoredTwice();
  },
};

function outageMs(kill: number, random: Random, quick: boolean): number {
  if (quick) return random.between(0, 200);
  return kill % 5 === 0 ? LONG_OUTAGE_MS : random.between(0, 1500);
}
