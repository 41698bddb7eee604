import type { Client } from '../../harness/http/client.ts';
import { answer } from '../../harness/http/receiver.ts';
import { until } from '../../harness/until.ts';
import type { Lab } from '../lab.ts';
import type { Scenario } from '../scenario.ts';

const MAX_ATTEMPTS = 3;

interface DeadLetter {
  subscriber: string;
  reason: string;
}

/** Three subscribers have a batch that can never be delivered; a fourth works. */
export const poison: Scenario = {
  name: 'poison',
  title: 'a job that throws, a payload that cannot be decoded, and 413 for ever',
  events: { full: 5000, quick: 200 },
  async run(lab) {
    // A job that throws is logged as an error.
    lab.bus.announceError(/job|batch|dead letter/);
    const processes = [await lab.start('web'), await lab.start('worker')];
    await lab.subscribe('search', { topic: 'widgets', timeout: 20, max: 10 });
    const others = lab.publish({ topic: 'widgets', events: lab.events, publishers: 2, perSecond: 500 });
    const poisoned = [await throwing(lab), await garbled(lab), await oversized(lab)];
    const letters = await Promise.all(poisoned.map(deadLetters));
    lab.say(`set apart: ${letters.flat().map(({ reason }) => reason)}`);
    const counts = letters.map(({ length }) => length);
    lab.bar(
      'each has one dead letter',
      counts.every((count) => count === 1),
      `${counts}`,
    );
    const explained = poisoned.every(({ token }, index) =>
      letters[index]?.every(({ subscriber, reason }) => subscriber === token && reason !== ''),
    );
    lab.bar('it names its subscriber and the reason', explained);
    await others.done;
    await lab.settle();
    lab.noneExited(processes);
  },
};

/** Writes a callback that is no URL into Redis, so that the job throws. The API would refuse it. */
async function throwing(lab: Lab): Promise<Client> {
  const { subscriber } = await lab.subscribe('thrower', { topic: 'thrown' }, { doomed: true });
  const { redis, keys } = lab.bus.partitions.ofSubscriber(subscriber.token);
  await redis.hset(keys.subscriber(subscriber.token), 'callback', 'nowhere');
  await lab.publish({ topic: 'thrown', events: 1 }).done;
  return subscriber;
}

/** Overwrites one event of a batch before the batch is closed and delivered. */
async function garbled(lab: Lab): Promise<Client> {
  const wanted = { topic: 'garbled', max: 4, timeout: 3_600_000 };
  const { subscriber } = await lab.subscribe('garbled', wanted, { doomed: true });
  const { redis, keys } = lab.bus.partitions.ofSubscriber(subscriber.token);
  await lab.publish({ topic: 'garbled', events: 3 }).done;
  const openBatch = async () => (await redis.smembers(keys.batches_current(subscriber.token)))[0];
  const bid = await until(openBatch, { what: 'the batch is there' });
  await redis.lset(keys.batch(bid), -1, Buffer.from([0xc1, 0xff, 0x00]));
  await lab.publish({ topic: 'garbled', events: 1 }).done;
  return subscriber;
}

async function oversized(lab: Lab): Promise<Client> {
  const wanted = { topic: 'oversized', max_attempts: MAX_ATTEMPTS };
  const { subscriber, receiver } = await lab.subscribe('oversized', wanted, { doomed: true });
  receiver.usual = answer.status(413);
  await lab.publish({ topic: 'oversized', events: 1 }).done;
  await receiver.delivery(MAX_ATTEMPTS);
  await deadLetters(subscriber);
  const { length } = receiver.deliveries;
  lab.bar(`no more than ${MAX_ATTEMPTS} attempts`, length === MAX_ATTEMPTS, `${length}`);
  return subscriber;
}

async function deadLetters(subscriber: Client): Promise<DeadLetter[]> {
  return until(
    async () => {
      const letters = (await subscriber.call('GET', '/dead_letters')) as DeadLetter[];
      return letters.length > 0 ? letters : undefined;
    },
    { timeoutMs: 20_000, everyMs: 50, what: 'a dead letter' },
  );
}
