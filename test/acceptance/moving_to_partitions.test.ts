import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PrintingProcess, root } from '../../harness/processes/command.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { assertPartitionsConsistent } from '../../harness/scripts/crossing.ts';
import { until } from '../../harness/until.ts';
import { Partitions } from '../../src/store/partitions.ts';

const PARTITIONS = 4;
const TOPICS = ['widgets', 'gadgets', 'gizmos'];
const PUBLISHES = 5;
const urlOf = (topic: string, n: number) => `https://shop.example.com/${topic}/${n}`;

test('a bus that moved to four partitions delivers what was queued before, in order, and goes on', async (t) => {
  const bus = await RunningBus.open({ env: { ROUTEMASTER_PARTITIONS: '1' } });
  t.after(() => bus.close());
  const web = await bus.start('web');
  let publisher = await bus.client('publisher');
  const receivers = await Promise.all(
    Array.from({ length: 6 }, async (_, index) => {
      const subscriber = await bus.client(`subscriber${index}`);
      const receiver = await bus.receiver(t);
      const { callback } = receiver;
      const wanted = { topics: TOPICS, callback, uuid: 'me', timeout: 0, max: 2, ordered: true };
      await subscriber.call('POST', '/subscription', wanted);
      return receiver;
    }),
  );
  const publish = async (from: number) => {
    for (const topic of TOPICS)
      for (let n = from; n < from + PUBLISHES; n++) await publisher.publish(topic, { url: urlOf(topic, n) });
  };
  await publish(0);
  await web.stop();

  const { store } = bus;
  const args = ['--from', bus.redis.url, '--to', bus.redis.url, '--partitions', String(PARTITIONS)];
  const env = { ...process.env, ROUTEMASTER_REDIS_PREFIX: bus.store.prefix };
  const move = new PrintingProcess(process.execPath, ['src/move.ts', ...args], { cwd: root, env });
  assert.equal(await move.exitCode, 0, move.output);

  const several = { ROUTEMASTER_PARTITIONS: String(PARTITIONS) };
  await Promise.all([bus.start('web', several), bus.start('worker', several)]);
  publisher = bus.clientOf(publisher.token, publisher.secret);
  await publish(PUBLISHES);
  const expected = TOPICS.map((topic) => Array.from({ length: 2 * PUBLISHES }, (_, n) => urlOf(topic, n)));
  for (const receiver of receivers) {
    await until(() => receiver.events.length >= expected.flat().length, { what: 'all is delivered' });
    const urls = receiver.events.map(({ url }) => url);
    for (const ofTopic of expected)
      assert.deepEqual(
        urls.filter((url) => ofTopic.includes(url)),
        ofTopic,
      );
    assert.equal(urls.length, expected.flat().length);
  }
  const partitions = Partitions.on(store.redis, { prefix: store.prefix, partitions: PARTITIONS });
  await until(() => assertPartitionsConsistent(partitions).then(() => true), { what: 'Redis is consistent' });
});
