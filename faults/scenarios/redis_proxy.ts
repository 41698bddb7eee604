import type { Random } from '../../harness/random.ts';
import { sleep } from '../../src/clock.ts';
import type { Proxied } from '../lab.ts';
import { MAX_WAIT_MS } from '../publishing.ts';
import type { Meddling } from '../redis_proxy.ts';
import type { Scenario } from '../scenario.ts';

/** The troubles of a connection, repeated in random order. A muted connection costs its process 5 s. */
const TROUBLES = ['cut', 'cut', 'cut', 'delay', 'delay', 'delay', 'mute'] as const;
type Trouble = (typeof TROUBLES)[number];

/** The connections of web and worker to Redis are cut, delayed and muted, before a request arrives or before its reply does. */
export const redisProxy: Scenario = {
  name: 'redis-proxy',
  title: 'connections to Redis are cut, delayed, and lose replies',
  events: { full: 20_000, quick: 400 },
  bus: { env: { ROUTEMASTER_WORKER_LEASE: '10' } },
  async run(lab) {
    const members = [await lab.startProxied('web'), await lab.startProxied('worker')];
    await lab.subscribe('search', { topic: 'widgets', timeout: 20, max: 20 });
    const counts = members.map((member) => meddle(member, lab.random.fork(member.process.name), lab.quick));
    const publishing = lab.publish({
      topic: 'widgets',
      events: lab.events,
      ...{ publishers: 4, perPost: 5, perSecond: 500 },
    });
    await publishing.done;
    for (const { proxy } of members) proxy.meddle = () => undefined;
    await lab.settle();
    for (const [index, { process }] of members.entries()) {
      const troubles = [...(counts[index] ?? [])].map(([what, count]) => `${count} × ${what}`);
      lab.say(`${process.name} had ${troubles.join(', ')}`);
    }
    const { storedTwice } = lab.ledger.totals();
    const seconds = (publishing.longestMs / 1000).toFixed(1);
    lab.bar('stored twice 0', storedTwice === 0, `${storedTwice}`);
    lab.bar('each publish is answered within 10 s', publishing.longestMs < MAX_WAIT_MS, `${seconds} s`);
  },
};

/** Returns the counts of troubles, which grow as they are made. */
function meddle({ proxy }: Proxied, random: Random, quick: boolean): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const messages = () => (quick ? random.whole(4, 12) : random.whole(20, 120));
  const others = quick ? TROUBLES.filter((each) => each !== 'mute') : TROUBLES;
  let plan = random.shuffled<Trouble>(TROUBLES);
  let wait = messages();
  proxy.meddle = ({ at }) => {
    if (wait-- > 0) return undefined;
    wait = messages();
    if (plan.length === 0) plan = random.shuffled<Trouble>(others);
    const what = plan.pop() ?? 'delay';
    const name = `${what} at a ${at}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
    return make(what, random);
  };
  return counts;
}

function make(what: Trouble, random: Random): Meddling {
  if (what !== 'delay') return { end: what };
  const ms = random.between(20, 400);
  return { first: () => sleep(ms) };
}
