import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { type Answer, answer, type Receiver } from '../../harness/http/receiver.ts';
import { RunningBus, type Scene } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';

const THREADS = 2;
/** Two workers in each thread, and a spare one. With so few, each lane holds only one. */
const WORKERS = 2 * THREADS;
const SPARE = THREADS;

/** Ticks come every 20 minutes, so that within a test only announcements wake workers. */
const bus = RunningBus.forTests({
  env: {
    ROUTEMASTER_WORKER_THREADS: String(THREADS),
    ROUTEMASTER_WORKERS_PER_THREAD: String(WORKERS / THREADS),
    ROUTEMASTER_ACQUIRE_TIMEOUT: '3600',
    ROUTEMASTER_WORKER_LEASE: '3600',
    ROUTEMASTER_SWEEP_INTERVAL: '3600',
    ROUTEMASTER_TIMEOUT: '3600',
  },
});

const isDrained = async () => (await bus.store.redis.hlen(bus.store.keys.gauge_batches())) === 0;

/** Makes a scene whose subscriber has accepted a batch. Before that, it would get one delivery at a time. */
async function scene(t: Parameters<RunningBus['scene']>[0]): Promise<Scene> {
  const made = await bus.scene(t);
  await publish(made, 0);
  await made.receiver.delivery(1);
  await until(isDrained);
  return made;
}

function publish({ publisher, topic }: Scene, n: number): Promise<void> {
  return publisher.publish(topic, { url: `https://shop.example.com/${n}` });
}

/** Returns the `acquire` calls for `main` that Redis gets while `work` runs. */
async function callsDuring(work: () => Promise<void>): Promise<string[]> {
  const socket = connect(bus.redis.socketPath ?? '');
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  socket.write('MONITOR\r\n');
  await once(socket, 'data');
  await work();
  await bus.store.redis.echo('the end');
  await until(() => text.includes('the end'));
  socket.destroy();
  return text.split('\r\n').filter((line) => /"fcall" "\w+_acquire" "1" "absent" "main"/i.test(line));
}

/** Makes the receiver answer its next request only when the returned function is called. */
function answerLater(receiver: Receiver, later: Answer): () => void {
  const held = Promise.withResolvers<void>();
  receiver.answers((response, delivery) => void held.promise.then(() => later(response, delivery)));
  return held.resolve;
}

/** Makes as many scenes as there are workers, spare ones included. */
function totalWaiting(t: Parameters<RunningBus['scene']>[0]): Promise<Scene[]> {
  return Promise.all(Array.from({ length: WORKERS + SPARE }, () => scene(t)));
}

/** Gives every worker a delivery. Returns a function for each of them that answers it. */
async function occupyWorkers(busy: Scene[], later: Answer): Promise<(() => void)[]> {
  const ends = busy.map(({ receiver }) => answerLater(receiver, later));
  for (const each of busy) {
    await publish(each, 1);
    await each.receiver.delivery(2);
  }
  return ends;
}

test('an event on an idle bus takes two calls of one thread: acquire and ack', async (t) => {
  const idle = await scene(t);
  const { redis, keys } = bus.store;
  await until(async () => (await redis.scard(keys.workers_main())) === WORKERS + SPARE, {
    what: 'all threads run',
  });
  const calls = await callsDuring(async () => {
    for (let n = 1; n <= 10; n++) {
      await publish(idle, n);
      await idle.receiver.delivery(n + 1);
      await until(isDrained);
    }
  });
  assert.equal(calls.length, 20, calls.join('\n'));
});

test('jobs that are announced together get all workers of all threads, and then the spare ones', async (t) => {
  const many = await totalWaiting(t);
  const ends = many.map(({ receiver }) => receiver.hold());
  await Promise.all(many.map((each) => publish(each, 1)));
  for (const { receiver } of many) await receiver.delivery(2);
  for (const end of ends) end();
  await until(isDrained);
});

test('a job that is announced while all workers are busy is delivered when one succeeds', async (t) => {
  const waiting = await scene(t);
  const [end, ...others] = await occupyWorkers(await totalWaiting(t), answer.status(204));
  await publish(waiting, 1);
  end?.();
  await waiting.receiver.delivery(2);
  for (const other of others) other();
  await until(isDrained);
});

test('a job that is announced while all workers are busy is delivered when one fails', async (t) => {
  const waiting = await scene(t);
  const ends = await occupyWorkers(await totalWaiting(t), answer.status(503, { 'retry-after': '3600' }));
  await publish(waiting, 1);
  ends.at(-1)?.();
  await waiting.receiver.delivery(2);
  for (const end of ends) end();
});
