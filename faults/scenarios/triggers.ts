import type { Client } from '../../harness/http/client.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { until } from '../../harness/until.ts';
import { sleep } from '../../src/clock.ts';
import type { TriggerReport } from '../../src/flow/triggers/trigger_report.ts';
import { msOf } from '../../src/store/replies.ts';
import { killOne } from '../kills.ts';
import type { Audience, Lab } from '../lab.ts';
import type { Scenario } from '../scenario.ts';
import { PERIOD_MS, storedIds, TriggerBook } from '../trigger_book.ts';

const DOWN_MS = 300_000;
/** Minimum number of kills. Every third hits Redis, the others a worker. */
const MIN_KILLS = { full: 4, quick: 3 };
const CATCH_UPS = ['none', 'latest', 'all'] as const;

/**
 * Triggers fire while workers and Redis are killed. Then the bus is down for five minutes; quick runs backdate
 * triggers.
 */
export const triggers: Scenario = {
  name: 'triggers',
  title: '1,000 triggers fire every second, and 100 at once, while workers and Redis get SIGKILL',
  events: { full: 100_000, quick: 300 },
  bus: {
    redis: { appendonly: 'yes', appendfsync: 'always' },
    env: {
      ROUTEMASTER_WORKER_LEASE: '2',
      ROUTEMASTER_CALL_RATE: '0',
      ROUTEMASTER_MAX_CLIENT_TRIGGERS: '2000',
    },
  },
  async run(lab) {
    await lab.start('web');
    const workers = [await lab.start('worker'), await lab.start('worker')];
    const audience = await lab.subscribe('audience', { topic: 'ticks', timeout: 20 }, { doomed: true });
    const client = await lab.bus.client('clock');
    const book = new TriggerBook(client, 'ticks');
    await book.putAll('tick', lab.quick ? 100 : 1000, { schedule: { every: PERIOD_MS }, catch_up: 'all' });
    const at = (await nowMs(lab)) + (lab.quick ? 2000 : 30_000);
    await book.putAll('once', lab.quick ? 20 : 100, { schedule: { at }, catch_up: 'all' });
    await killAll(lab, workers, audience);
    await judge(lab, book, audience);
    await beDown(lab, client, workers, audience);
    await lab.settle();
  },
};

/** Kills a worker, or Redis, again and again until all events are published, and at least MIN_KILLS times. */
async function killAll(lab: Lab, workers: BusProcess[], { receiver }: Audience): Promise<void> {
  const random = lab.random.fork('kills');
  const minKills = MIN_KILLS[lab.quick ? 'quick' : 'full'];
  for (let kill = 1; receiver.events.length < lab.events || kill <= minKills; kill++) {
    await sleep(random.between(1000, 5000) / (lab.quick ? 3 : 1));
    await killOne(lab, workers, { nth: kill, redisEvery: 3, maxOutageMs: lab.quick ? 200 : 2000, random });
    const before = receiver.events.length;
    await until(() => receiver.events.length > before, { everyMs: 50, what: 'triggers fire again' });
    lab.say(`kill ${kill}: ${receiver.events.length} events so far`);
  }
}

/** Compares the times at which triggers were due with the events that were published. */
async function judge(lab: Lab, book: TriggerBook, { receiver }: Audience): Promise<void> {
  const due = await book.close();
  lab.ledger.accept('ticks', due);
  let found = storedIds(receiver.deliveries);
  const isComplete = () => {
    found = storedIds(receiver.deliveries);
    return due.every((id) => found.has(id));
  };
  await until(isComplete, { everyMs: 500 }).catch(() => {});
  const missing = due.filter((id) => !found.has(id)).length;
  const twice = [...found.values()].filter((batches) => batches.size > 1).length;
  const expected = new Set(due);
  const early = [...found.keys()].filter((id) => !expected.has(id)).length;
  lab.sayTornEnds();
  lab.bar(`none of ${due.length} due times is missing`, missing === 0, `${missing}`);
  lab.bar('none is published twice', twice === 0, `${twice}`);
  lab.bar('nothing else is published', early === 0, `${early}`);
}

/** Judges that after five minutes without a worker, triggers fire none, the latest, or all of their missed times. */
async function beDown(
  lab: Lab,
  client: Client,
  workers: BusProcess[],
  { receiver }: Audience,
): Promise<void> {
  for (const worker of workers) await worker.kill();
  const { redis, keys } = lab.bus.partitions.ofTopic('ticks');
  const event = { type: 'noop', url: 'https://shop.example.com/down' };
  const schedule = { cron: '*/2 * * * * *', timezone: 'Europe/London' };
  const put = (name: string, paused: boolean) => {
    const body = { topic: 'ticks', event, schedule, start: 0, catch_up: name, paused };
    return client.call('PUT', `/triggers/${name}`, body) as Promise<TriggerReport>;
  };
  const firstMs = new Map<string, number>();
  for (const name of CATCH_UPS) {
    const { next_at: nextMs } = await put(name, false);
    const dueMs = (nextMs ?? 0) - (lab.quick ? DOWN_MS : 0);
    firstMs.set(name, dueMs);
    await redis.hset(keys.trigger(client.token, name), 'next_at', dueMs);
    await redis.zadd(keys.triggers_due(), dueMs, `${name} ${client.token}`);
  }
  if (!lab.quick) await sleep(DOWN_MS);
  await lab.start('worker');
  lab.say('a worker is back after five minutes');
  const isBehind = async () => redis.zcount(keys.triggers_due(), '-inf', await nowMs(lab));
  await until(async () => (await isBehind()) === 0, { what: 'nothing is due' });
  for (const name of CATCH_UPS) {
    const { next_at: nextMs, fired, missed } = await put(name, true);
    const dueMs = firstMs.get(name) ?? 0;
    const due = ((nextMs ?? 0) - dueMs) / 2000;
    await until(() => timesOf(receiver, name).length >= fired, { what: `what ${name} fired arrives` });
    const caught = timesOf(receiver, name).filter((at) => at < dueMs + DOWN_MS - 10_000).length;
    const caughtUp = { none: 0, latest: 0, all: (DOWN_MS - 10_000) / 2000 }[name];
    // `latest` fires only for the last missed time. That time is in the last ten seconds, which `caught` does not
    // count.
    const isExact = caught === caughtUp && fired + missed === due && (name === 'all') === (missed === 0);
    lab.bar(`catch_up ${name} is exact`, isExact, `${fired} fired, ${missed} missed of ${due}`);
  }
}

function timesOf({ events }: Audience['receiver'], name: string): number[] {
  return events.filter(({ id }) => id.startsWith(`${name}@`)).map(({ t }) => t);
}

async function nowMs({ bus }: Lab): Promise<number> {
  return msOf(await bus.store.redis.time());
}
