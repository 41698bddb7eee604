import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { faketimeLibrary, wrongClock } from '../../harness/processes/faketime_library.ts';
import { until } from '../../harness/until.ts';
import { bus } from './short_lease_bus.ts';

const DAY_MS = 24 * 3600 * 1000;

const library = faketimeLibrary();

describe('a worker whose clock is off by a day', {
  skip: library === undefined && 'libfaketime is not installed',
}, () => {
  for (const [days, offset] of [
    [1, '+1d'],
    [-1, '-1d'],
  ] as const) {
    test(`${offset}: delivers in time, scrubs nobody and is not scrubbed`, async (t) => {
      const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 300, max: 100 });
      const right = bus.process('worker');
      const wrong = await bus.start('worker', wrongClock(library ?? '', offset));
      const { time } = await wrong.logs('delivering');
      assert.ok(Math.abs(Date.parse(String(time)) - Date.now() - days * DAY_MS) < DAY_MS / 2, `${time}`);

      // One of the two workers holds the batch for longer than the lease, while the scrubs of both go on.
      const release = receiver.hold();
      await publisher.publish(topic, { url: 'https://shop.example.com/1' });
      const { atMs } = await receiver.delivery(1);
      await until(() => performance.now() - atMs > 1500);
      release();
      await until(async () => (await subscriber.report()).events.queued === 0);
      assert.equal(receiver.deliveries.length, 1);

      await right.stop();
      const beganMs = performance.now();
      await publisher.publish(topic, { url: 'https://shop.example.com/2' });
      const second = await receiver.delivery(2);
      assert.ok(second.atMs - beganMs >= 299, `${second.atMs - beganMs} ms`);
      await until(async () => (await subscriber.report()).events.queued === 0);

      for (const worker of [right, wrong]) {
        assert.ok(worker.log.every(({ msg }) => msg !== 'scrubbed workers that died'));
      }
      await wrong.stop();
      await bus.start('worker');
    });
  }
});

describe('a web process whose clock is off by a day', {
  skip: library === undefined && 'libfaketime is not installed',
}, () => {
  for (const offset of ['+1d', '-1d'])
    test(`${offset}: gives events the time of Redis, by which subscribers tell old from new`, async (t) => {
      const { publisher, topic, subscriber, receiver } = await bus.scene(t, { timeout: 0 });
      await bus.process('web').stop();
      const wrong = await bus.start('web', wrongClock(library ?? '', offset));
      const client = bus.clientOf(publisher.token, publisher.secret);
      await client.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
      await bus.clientOf(subscriber.token, subscriber.secret).call('POST', '/subscriber/test');
      for (const { events } of [await receiver.delivery(1), await receiver.delivery(2)]) {
        const [{ t = 0 } = {}] = events;
        assert.ok(Math.abs(t - Date.now()) < 60_000, new Date(t).toISOString());
      }
      await wrong.stop();
      await bus.start('web');
    });
});
