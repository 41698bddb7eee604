import { BusAnswerError } from '../../harness/http/bus_client.ts';
import type { Client } from '../../harness/http/client.ts';
import type { Receiver } from '../../harness/http/receiver.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import type { Random } from '../../harness/random.ts';
import { until } from '../../harness/until.ts';
import { sleep } from '../../src/clock.ts';
import { killOne } from '../kills.ts';
import type { Lab } from '../lab.ts';
import type { Scenario } from '../scenario.ts';

/** Each key needs one `paid`, two `packed` and one `checked`. */
const SOURCES = ['paid', 'packed', 'packed', 'checked'];
/** The fraction of the keys that lack an event. */
const INCOMPLETE = 0.1;
/** The fraction of the publishes that are repeated, with their idempotency key, although they were accepted. */
const REPEATED = 0.2;
const PER_POST = 20;
const PUBLISHERS = 4;
const AFTER_REFUSAL_MS = 20;
const DRAINED_WITHIN_MS = 120_000;

interface Sent {
  topic: string;
  key: string;
  id: string;
}

interface Joined {
  key: string;
  events: string[];
}

/** Workers and Redis are killed while a join counts events that come in any order, some of them twice. */
export const joins: Scenario = {
  name: 'joins',
  title: 'a join counts events in any order; workers and Redis get SIGKILL again and again',
  events: { full: 20_000, quick: 300 },
  bus: { redis: { appendonly: 'yes', appendfsync: 'always' }, env: { ROUTEMASTER_WORKER_LEASE: '2' } },
  async run(lab) {
    await lab.start('web');
    const workers = [await lab.start('worker'), await lab.start('worker')];
    const shop = await lab.bus.client('shop');
    const receiver = await subscribe(lab);
    await shop.call('PUT', '/joins/order', {
      sources: [{ topic: 'paid' }, { topic: 'packed', count: 2 }, { topic: 'checked' }],
      by: 'data.order',
      then: { topic: 'ready', type: 'update' },
      within: 86_400_000,
    });
    const random = lab.random.fork('events');
    const { events, complete } = eventsOf(lab.events, random);
    const publishing = publish(lab, shop, events, random);
    const kills = await killUntil(lab, workers, publishing);
    await publishing;
    await until(async () => new Set(joinedBy(receiver).map(({ key }) => key)).size >= complete.size, {
      timeoutMs: DRAINED_WITHIN_MS,
      everyMs: 50,
      what: 'all complete keys are published',
    });
    await lab.settle();
    judge(lab, receiver, events, complete);
    // The call is repeated until web has connected to Redis again.
    const report = await until(() => shop.call('GET', '/joins/order').catch(() => undefined), {
      everyMs: 50,
    });
    const { open, completed } = report as { open: number; completed: number };
    lab.bar(
      `completed ${complete.size}, open ${lab.events - complete.size}`,
      completed === complete.size && open === lab.events - complete.size,
      `${completed}, ${open}`,
    );
    lab.say(`${kills} kills, ${events.length} events`);
  },
};

async function subscribe(lab: Lab): Promise<Receiver> {
  const office = await lab.bus.client('office');
  const receiver = await lab.bus.receiver(lab);
  const { callback } = receiver;
  await office.call('POST', '/subscription', {
    topics: ['ready'],
    callback,
    uuid: 'me',
    timeout: 20,
    max: 100,
  });
  return receiver;
}

/** Returns the events of this many keys, in random order. Some keys lack an event, and must stay open. */
function eventsOf(keys: number, random: Random): { events: Sent[]; complete: Set<string> } {
  const complete = new Set<string>();
  const events = Array.from({ length: keys }, (_, n) => {
    const key = `order-${n}`;
    const lacking = random.chance(INCOMPLETE) ? random.whole(0, SOURCES.length - 1) : -1;
    if (lacking < 0) complete.add(key);
    return SOURCES.flatMap((topic, place) =>
      place === lacking ? [] : [{ topic, key, id: `${key}/${place}` }],
    );
  });
  return { events: random.shuffled(events.flat()), complete };
}

/** Publishes all events, each POST with an idempotency key and until it is accepted. Some are repeated after that. */
async function publish(lab: Lab, shop: Client, events: readonly Sent[], random: Random): Promise<void> {
  const posts: Sent[][] = [];
  const byTopic = Map.groupBy(events, ({ topic }) => topic);
  for (const all of byTopic.values())
    for (let from = 0; from < all.length; from += PER_POST) posts.push(all.slice(from, from + PER_POST));
  const queue = random.shuffled(posts.map((post, index) => ({ post, index })));
  const publisher = async () => {
    for (let next = queue.pop(); next; next = queue.pop()) {
      const { post, index } = next;
      await untilAccepted(shop, post, `p${index}`);
      lab.ledger.accept(
        post[0]?.topic ?? '',
        post.map(({ id }) => id),
      );
      if (random.chance(REPEATED)) await untilAccepted(shop, post, `p${index}`);
    }
  };
  await Promise.all(Array.from({ length: PUBLISHERS }, publisher));
}

async function untilAccepted(shop: Client, post: readonly Sent[], key: string): Promise<void> {
  const events = post.map(({ id, key: order }) => ({
    id,
    url: `https://shop.example.com/${id}`,
    data: { order },
  }));
  for (;;) {
    try {
      return await shop.publish(post[0]?.topic ?? '', events, key);
    } catch (error) {
      if (error instanceof BusAnswerError && error.status < 500) throw error;
      await sleep(AFTER_REFUSAL_MS);
    }
  }
}

/** Kills a worker, or Redis, by turns. Resolves with the number of kills when everything is published. */
async function killUntil(lab: Lab, workers: BusProcess[], publishing: Promise<void>): Promise<number> {
  const random = lab.random.fork('kills');
  let ended = false;
  void publishing
    .finally(() => {
      ended = true;
    })
    .catch(() => {});
  let kills = 0;
  while (!ended || kills < 2) {
    await Promise.race([
      sleep(random.between(500, 2500) / (lab.quick ? 5 : 1)),
      ended ? sleep(0) : publishing,
    ]);
    const killed = await killOne(lab, workers, { nth: ++kills, redisEvery: 2, maxOutageMs: 300, random });
    lab.say(`killed ${killed}`);
  }
  return kills;
}

/** Returns the events that the join published, each as its first delivery brought it. */
function joinedBy(receiver: Receiver): (Joined & { id: string })[] {
  const first = new Map(receiver.events.toReversed().map(({ id, data }) => [id, data as Joined]));
  return [...first].map(([id, data]) => ({ id, ...data }));
}

function judge(lab: Lab, receiver: Receiver, events: readonly Sent[], complete: ReadonlySet<string>): void {
  const joined = joinedBy(receiver);
  const times = new Map<string, number>();
  for (const { key } of joined) times.set(key, (times.get(key) ?? 0) + 1);
  const twice = [...times].filter(([, count]) => count > 1);
  lab.bar('published twice 0', twice.length === 0, `${twice.length}`);
  const missing = [...complete].filter((key) => !times.has(key));
  lab.bar('complete and not published 0', missing.length === 0, `${missing.length}`);
  const wrong = [...times.keys()].filter((key) => !complete.has(key));
  lab.bar('incomplete and published 0', wrong.length === 0, `${wrong.length}`);
  const idsOf = new Map(
    [...Map.groupBy(events, ({ key }) => key)].map(([key, all]) => [key, all.map(({ id }) => id)]),
  );
  const others = joined.filter(
    ({ key, events: ids }) => idsOf.get(key)?.sort().join() !== ids.toSorted().join(),
  );
  lab.bar('published with other events than its own 0', others.length === 0, `${others.length}`);
  lab.sayTornEnds();
}
