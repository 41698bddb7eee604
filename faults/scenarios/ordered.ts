import { answer } from '../../harness/http/receiver.ts';
import { sleep } from '../../src/clock.ts';
import { Recovery } from '../recovery.ts';
import type { Scenario } from '../scenario.ts';

const FAILING = 0.1;

/**
 * Workers are killed, and the subscriber refuses every tenth delivery. One publisher waits for each answer, so the
 * order is known.
 */
export const ordered: Scenario = {
  name: 'ordered',
  title: 'an ordered subscriber under kills and failing answers',
  events: { full: 10_000, quick: 300 },
  bus: { env: { ROUTEMASTER_WORKER_LEASE: '1' } },
  async run(lab) {
    await lab.start('web');
    const workers = [await lab.start('worker'), await lab.start('worker')];
    const wanted = { topic: 'widgets', max: 10, timeout: 20, ordered: true };
    const { receiver } = await lab.subscribe('search', wanted);
    const [answers, kills] = [lab.random.fork('answers'), lab.random.fork('kills')];
    receiver.usual = (response) => {
      const reaction = answers.chance(FAILING) ? answer.status(503) : answer.status(204);
      setTimeout(() => reaction(response), answers.between(0, 30));
    };
    const recovery = new Recovery(lab.bus.partitions);
    lab.after(() => recovery.close());
    const publishing = lab.publish({ topic: 'widgets', events: lab.events, perPost: 3, perSecond: 300 });
    let killed = 0;
    while (publishing.underWay || killed === 0) {
      await Promise.race([sleep(kills.between(1500, 4000) / (lab.quick ? 3 : 1)), publishing.done]);
      const index = kills.whole(0, 1);
      const atMs = performance.now();
      await workers[index]?.kill();
      const held = await recovery.begin(atMs);
      lab.say(`killed worker ${++killed} with ${held} deliveries in flight`);
      workers[index] = await lab.start('worker');
    }
    await publishing.done;
    lab.recovered(await recovery.end());
    await lab.settle();
    lab.noneOutOfOrder();
  },
};
