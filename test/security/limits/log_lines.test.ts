import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { batchHandler } from '../../../harness/batch_handler.ts';
import { capturedLog } from '../../../harness/captured_log.ts';
import { answer, Receiver } from '../../../harness/http/receiver.ts';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { subscriptionsOf } from '../../../harness/subscriptions.ts';
import { until } from '../../../harness/until.ts';
import { SubscriberLines } from '../../../src/delivering/subscriber_lines.ts';
import { joinToken } from '../../../src/ids.ts';
import { promoteDue } from '../../../src/maintenance/promoting.ts';
import { Workshop } from '../../delivering/workshop.ts';

const redis = new TestStore();

test('a callback that refuses every second batch does not fill the log', async (t) => {
  const { log, lines } = capturedLog();
  const bus = new Bus(() => redis.store);
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  receiver.answers(...Array.from({ length: 200 }, (_, n) => answer.status(n % 2 ? 500 : 204)));
  const { handler, close } = batchHandler(redis.store, log, { maxAttempts: 1, maxBackoffMs: 1 });
  const shop = await Workshop.open(redis.store, handler);
  const promoting = setInterval(() => void promoteDue(redis.store), 2);
  t.after(() => clearInterval(promoting));
  const wanted = { topics: ['widgets'], callback: receiver.callback, uuid: '', timeout: 0, max_events: 1 };
  await subscriptionsOf(redis.store).subscribe('loud', wanted);
  const event = '{"id":"e","topic":"widgets","type":"noop","url":"https://e.example/","t":1}';
  await bus.publish('a', 'widgets', Array<string>(200).fill(event));
  await until(async () => (await bus.state()).main.index.length === 0);
  await shop.close();
  await close();
  assert.equal(shop.buried.length, 100);
  assert.equal(lines.filter(({ death }) => death).length, 20);
});

test('nor does a subscriber that left before its batches were delivered', async (t) => {
  await redis.flush();
  const { log, lines } = capturedLog();
  const bus = new Bus(() => redis.store);
  const { handler, close } = batchHandler(redis.store, log, { maxAttempts: 1, maxBackoffMs: 1 });
  await bus.subscribe('gone', { max: 1, timeout: 0 });
  await bus.publish('a', 'widgets', Array<string>(50).fill('e'));
  await redis.store.redis.del(redis.store.keys.subscriber('gone'));
  const shop = await Workshop.open(redis.store, handler);
  t.after(() => close());
  await until(async () => (await bus.state()).main.index.length === 0);
  await shop.close();
  assert.equal(lines.filter(({ msg }) => /unsubscribed/.test(String(msg))).length, 20);
});

test('of many failures of a client the log tells some, and then how many more there were', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { log, lines } = capturedLog();
  const publicNames = { forLog: async (token: string) => `${token}.public` };
  const failures = new SubscriberLines({ publicNames, log });
  const told = async () => {
    await nextTurn();
    return lines
      .splice(0)
      .map(({ level, msg, subscriber, lines, of }) => [level, msg, subscriber, lines, of]);
  };
  for (let n = 0; n < 500; n++) {
    failures.write('loud', 'error', {}, 'failed');
    failures.write(joinToken(`join${n}`, 'loud'), 'error', {}, 'failed');
  }
  assert.deepEqual(await told(), Array(20).fill([50, 'failed', undefined, undefined, undefined]));
  failures.write('loud', 'error', {}, 'other message');
  failures.write('quiet', 'error', {}, 'failed');
  assert.deepEqual(
    (await told()).map(([, msg]) => msg),
    ['other message', 'failed'],
  );
  t.mock.timers.tick(9_999);
  assert.deepEqual(await told(), []);
  t.mock.timers.tick(1);
  assert.deepEqual(await told(), [[50, 'left out lines about deliveries', 'loud.public', 980, 'failed']]);
  failures.write('loud', 'error', {}, 'again');
  assert.equal((await told()).length, 1);
});
