import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { freePort } from '../../../harness/processes/ports.ts';
import { PrivateRedis } from '../../../harness/redis/private_redis.ts';
import { openStore } from '../../../harness/redis/store.ts';
import { until } from '../../../harness/until.ts';
import { bus } from '../default_bus.ts';

const KILLS = Number(process.env.RECEIVER_KILLS ?? 6);
const EVENTS_BETWEEN = 20;

test('a receiver that is killed again and again loses nothing, and repeats nothing that it confirmed', async (t) => {
  const [redis, port] = [await PrivateRedis.start(), await freePort()];
  const { redis: book } = await openStore(redis.url);
  let receiver: ChildProcess | undefined;
  const start = () => {
    const file = join(import.meta.dirname, 'killed_receiver.ts');
    receiver = spawn(process.execPath, [file, String(port), redis.url], { stdio: 'inherit' });
    return until(() => fetch(`http://127.0.0.1:${port}/`).then(() => true), { what: 'the receiver listens' });
  };
  const kill = async () => {
    receiver?.kill('SIGKILL');
    if (receiver) await once(receiver, 'exit');
  };
  t.after(async () => {
    await kill();
    book.disconnect();
    await redis.stop();
  });

  const [publisher, subscriber] = [await bus.client('publisher'), await bus.client('subscriber')];
  const callback = `http://127.0.0.1:${port}/events`;
  const subscription = { topics: ['killed'], callback, uuid: 'me', timeout: 0, max: 3, max_in_flight: 4 };
  await subscriber.call('POST', '/subscription', subscription);
  const published: string[] = [];
  for (let run = 0; run < KILLS; run++) {
    await start();
    const urls = Array.from({ length: EVENTS_BETWEEN }, (_, n) => `https://shop.example.com/${run}/${n}`);
    await publisher.publish(
      'killed',
      urls.map((url) => ({ url })),
    );
    published.push(...urls);
    const before = await book.llen('handled');
    await until(async () => (await book.llen('handled')) > before);
    await kill();
  }
  await start();
  await until(async () => (await subscriber.report()).events.queued === 0, { what: 'all is delivered' });
  const handled = await book.lrange('handled', 0, -1);
  assert.deepEqual([...new Set(handled)].toSorted(), published.toSorted());
  assert.deepEqual(await book.lrange('repeated', 0, -1), []);
  t.diagnostic(
    `${published.length} events, ${handled.length - published.length} of them handled again after a kill`,
  );
});
