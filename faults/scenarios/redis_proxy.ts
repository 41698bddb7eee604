import { MAX_WAIT_MS } from '../publishing.ts';
import type { Scenario } from '../scenario.ts';
import { Troubles } from '../troubles.ts';

/**
 * The connections of web and worker to Redis are cut, delayed and muted, before a request arrives or before its reply
 * does.
 */
export const redisProxy: Scenario = {
  name: 'redis-proxy',
  title: 'connections to Redis are cut, delayed, and lose replies',
  events: { full: 20_000, quick: 400 },
  bus: { env: { ROUTEMASTER_WORKER_LEASE: '10' } },
  async run(lab) {
    const members = [await lab.startProxied('web'), await lab.startProxied('worker')];
    await lab.subscribe('search', { topic: 'widgets', timeout: 20, max: 20 });
    const messages = lab.quick ? { min: 4, max: 12 } : { min: 20, max: 120 };
    const troubles = members.map(({ process, proxy }) => {
      // A muted connection costs its process 5 s.
      const made = new Troubles({ random: lab.random.fork(process.name), messages, fewMutes: lab.quick });
      proxy.meddle = ({ at }) => made.next(at);
      return made;
    });
    const publishing = lab.publish({
      topic: 'widgets',
      events: lab.events,
      ...{ publishers: 4, perPost: 5, perSecond: 500 },
    });
    await publishing.done;
    for (const { proxy } of members) proxy.meddle = () => undefined;
    await lab.settle();
    for (const [index, { process }] of members.entries()) lab.say(`${process.name} had ${troubles[index]}`);
    const seconds = (publishing.longestMs / 1000).toFixed(1);
    lab.noneStoredTwice();
    lab.bar('each publish is answered within 10 s', publishing.longestMs < MAX_WAIT_MS, `${seconds} s`);
  },
};
