import assert from 'node:assert/strict';
import { answer, type Receiver } from '../../harness/http/receiver.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { until } from '../../harness/until.ts';
import type { Job } from '../../src/store/job.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Lab, Proxied } from '../lab.ts';
import { heldBatches } from '../recovery.ts';
import { acknowledgesOnMain } from '../redis_proxy.ts';
import type { Scenario } from '../scenario.ts';

/** Number of batches in flight. */
const BATCHES = 8;
/** One subscriber may hold a quarter of the workers that a thread has for a partition. */
const WORKERS_PER_PARTITION = 4 * BATCHES;
const MAX = 5;
const TAKE = answer.status(204);
const REFUSE = answer.status(500);
const STALE = /^the lease ran out/;

/** Returns for how many batches the worker has logged that the lease ran out. */
function lostBy({ log }: BusProcess): number {
  const jobs = log.filter(({ msg }) => STALE.test(msg)).map(({ job }) => job as Job);
  return new Set(jobs.flatMap(({ name, args }) => (name === 'batch' ? args : []))).size;
}

/** The scripts by which a worker settles a job that failed. */
const FAILURES = ['nack', 'bury'];

/**
 * A worker is stopped while all its deliveries are unanswered. Another worker takes them over and settles one half.
 * Then the first worker goes on. The answers make it ack or nack all of its deliveries: those that are settled, and
 * those that the other worker holds.
 */
export const frozenWorker: Scenario = {
  name: 'frozen-worker',
  title: 'a worker gets SIGSTOP past its lease, then SIGCONT',
  events: { full: 20 * BATCHES * MAX, quick: BATCHES * MAX },
  bus: { env: { ROUTEMASTER_WORKER_LEASE: '1' } },
  async run(lab) {
    await lab.start('web');
    const wanted = { topic: 'widgets', max: MAX, timeout: 60_000 };
    const { subscriber, receiver } = await lab.subscribe('search', wanted);
    const partition = lab.bus.partitions.ofSubscriber(subscriber.token);
    let worker = await startWorker(lab);
    // Until a subscriber has taken a batch, it gets few deliveries at a time.
    await lab.publish({ topic: 'widgets', events: MAX, perPost: MAX }).done;
    await lab.settle();
    let [stale, came, refused] = [0, 0, 0];
    while (lab.ledger.accepted < lab.events) {
      const { proxy, process } = worker;
      proxy.meddle = ({ at, call }) => {
        const failed = call.args[0] === 'main' && FAILURES.includes(call.script ?? '');
        if (at === 'request' && (failed || acknowledgesOnMain(call))) came++;
        return undefined;
      };
      // Every other time the answers come while the worker is stopped. When it goes on, they settle its deliveries
      // before its heartbeat can report the lost leases.
      const answeredAsleep = (stale / BATCHES) % 2 === 0;
      const other = await freeze(lab, worker, { receiver, partition, answeredAsleep });
      const found = lostBy(process);
      lab.say(`${found} of ${BATCHES} stale outcomes do not count`);
      stale += BATCHES;
      refused += found;
      await process.stop();
      worker = other;
    }
    await lab.settle();
    lab.bar('every stale ack and nack is refused', refused === stale, `${refused} of ${stale}`);
    lab.bar('some of them reach Redis', came > 0, `${came}`);
    const { events, health_points } = await lab.bus.clientOf(subscriber.token, subscriber.secret).report();
    lab.bar('each event counts as sent once', events.sent === lab.ledger.accepted, `${events.sent}`);
    lab.bar('a stale nack costs no health', health_points === 100, `${health_points}`);
  },
};

/** Starts a worker. The workers of a thread are divided among the partitions. */
function startWorker(lab: Lab): Promise<Proxied> {
  const workers = WORKERS_PER_PARTITION * lab.bus.partitions.all.length;
  return lab.startProxied('worker', { ROUTEMASTER_WORKERS_PER_THREAD: String(workers) });
}

/**
 * Stops the worker until another has taken over its deliveries. Resolves with the other worker when all is delivered.
 */
async function freeze(
  lab: Lab,
  { process }: Proxied,
  {
    receiver,
    partition,
    answeredAsleep,
  }: { receiver: Receiver; partition: Partition; answeredAsleep: boolean },
): Promise<Proxied> {
  const random = lab.random.fork(`answers ${lab.ledger.accepted}`);
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const before = receiver.deliveries.length;
  const ids: string[] = [];
  receiver.usual = (response, { id, attempt }) => {
    if (attempt === 1) ids.push(id);
    const held = attempt === 1 ? first.promise : ids.indexOf(id) % 2 === 0 ? second.promise : undefined;
    const reaction = attempt === 1 && random.chance(0.5) ? REFUSE : TAKE;
    void Promise.resolve(held).then(() => reaction(response));
  };
  const arrived = (count: number) =>
    until(() => receiver.deliveries.length >= before + count, { what: `${count} deliveries` });

  await lab.publish({ topic: 'widgets', events: BATCHES * MAX, perPost: MAX }).done;
  await arrived(BATCHES);
  process.signal('SIGSTOP');
  const other = await startWorker(lab).catch((error) => {
    process.signal('SIGCONT');
    throw error;
  });
  try {
    await arrived(2 * BATCHES);
    await until(async () => (await heldBatches(partition)).length === BATCHES / 2, {
      what: 'one half is done',
    });
    if (answeredAsleep) first.resolve();
  } finally {
    process.signal('SIGCONT');
  }
  const held = (await heldBatches(partition)).sort();
  first.resolve();
  await until(() => lostBy(process) === BATCHES, { what: 'the worker hears that its lease ran out' });
  assert.deepEqual((await heldBatches(partition)).sort(), held, 'the other holds what it held');
  second.resolve();
  const isDone = () => partition.redis.hlen(partition.keys.gauge_events()).then((count) => count === 0);
  await until(isDone, { what: 'all is done' });
  return other;
}
