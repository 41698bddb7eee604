import type { Random } from '../../harness/random.ts';
import { sleep } from '../../src/clock.ts';
import type { Proxied } from '../lab.ts';
import type { Scenario } from '../scenario.ts';

const MOMENTS = ['at any moment', 'before Redis has the events', 'before the answer is out'] as const;

/** One of two webs is killed again and again; publishers repeat POSTs, with their key, at whichever web runs. */
export const webKill: Scenario = {
  name: 'web-kill',
  title: 'a web gets SIGKILL in mid-request; publishers ask again with their Idempotency-Key',
  events: { full: 20_000, quick: 400 },
  async run(lab) {
    const webs = [await lab.startProxied('web'), await lab.startProxied('web')];
    await lab.start('worker');
    await lab.subscribe('search', { topic: 'widgets', timeout: 50 });
    const random = lab.random.fork('kills');
    const kills = lab.quick ? MOMENTS.length : 7 * MOMENTS.length;
    const publishing = lab.publish({
      topic: 'widgets',
      publishers: 8,
      perPost: 5,
      perSecond: 500,
      again: true,
    });
    for (let kill = 1; kill <= kills; kill++) {
      await publishing.reaches((lab.events / (kills + 1)) * kill);
      const moment = MOMENTS[kill % MOMENTS.length] ?? MOMENTS[0];
      const index = random.whole(0, 1);
      await strike(webs[index] as Proxied, moment, random);
      lab.say(`killed web ${index + 1} ${moment}`);
      webs[index] = await lab.startProxied('web');
    }
    await publishing.reaches(lab.events);
    await publishing.stop();
    await lab.settle();
    const { duplicated, storedTwice } = lab.ledger.totals();
    lab.bar('duplicated 0', duplicated === 0, `${duplicated}, of which ${storedTwice} were stored twice`);
  },
};

async function strike(
  { process, proxy }: Proxied,
  moment: (typeof MOMENTS)[number],
  random: Random,
): Promise<void> {
  if (moment === 'at any moment') {
    await sleep(random.between(0, 200));
    return process.kill();
  }
  const at = moment === 'before the answer is out' ? 'reply' : 'request';
  await proxy.strike((message) => message.at === at && message.call.script === 'publish', {
    first: () => process.kill(),
    end: 'cut',
  });
}
