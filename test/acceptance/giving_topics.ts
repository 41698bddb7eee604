import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BusAnswerError } from '../../harness/http/bus_client.ts';
import type { Client } from '../../harness/http/client.ts';
import { until } from '../../harness/until.ts';
import type { TriggerReport } from '../../src/flow/triggers/trigger_report.ts';
import { bus } from './two_webs_bus.ts';

const url = (n: number | string) => `https://shop.example.com/widgets/${n}`;

const give = (topic: string, to: Client) =>
  bus.root.call('PUT', `/topics/${topic}/publisher`, { client: to.token });

/** Resolves with the outcomes of ten publishes, on connections to both web processes. */
async function publishTen(client: Client, topic: string): Promise<string[]> {
  const publishes = Array.from({ length: 10 }, (_, n) => client.publish(topic, { url: url(n) }));
  const outcomes = publishes.map((each) =>
    each.then(
      () => 'accepted',
      (error: BusAnswerError) => /"code":"(\w+)"/.exec(error.message)?.[1] ?? error.message,
    ),
  );
  return [...new Set(await Promise.all(outcomes))];
}

test('a topic of a client that is gone goes on with another one, its subscribers and what waits', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  await publisher.publish(topic, [
    { id: 'now', url: url(1) },
    { id: 'later', url: url(2), delay: 4000 },
  ]);
  await bus.root.call('DELETE', `/api_tokens/${publisher.token}`);
  const heir = await bus.client('heir');
  assert.deepEqual(await publishTen(heir, topic), ['topic_claimed']);
  await give(topic, heir);
  assert.deepEqual((await subscriber.report()).topics, [topic]);
  await heir.publish(topic, { id: 'next', url: url(3) });
  const waiting = (await heir.call('GET', `/topics/${topic}/delayed`)) as unknown[];
  assert.equal(waiting.length, 1);
  await until(() => receiver.events.length === 3);
  assert.deepEqual(receiver.events.map(({ id }) => id).sort(), ['later', 'next', 'now']);
  await assert.rejects(give(topic, publisher), /404 .*client_not_found/);
});

test('its former publisher is refused at once, and so are its joins and triggers', async (t) => {
  bus.announceError(/a join may not publish/);
  const { publisher, topic } = await bus.scene(t);
  const [heir, source] = [await bus.client('heir'), `source_of_${topic}`];
  await publisher.publish(source, { url: url(0) });
  await publisher.call('PUT', '/joins/ready', { sources: [{ topic: source }], by: 'url', then: { topic } });
  const event = { type: 'noop', url: url('tick') };
  await publisher.call('PUT', '/triggers/tick', { topic, event, schedule: { every: 1000 } });
  const trigger = async () => (await publisher.call('GET', '/triggers/tick')) as TriggerReport;

  assert.deepEqual(await publishTen(publisher, topic), ['accepted']);
  await give(topic, heir);
  assert.deepEqual(await publishTen(publisher, topic), ['topic_claimed']);
  assert.deepEqual(await publishTen(heir, topic), ['accepted']);
  await until(async () => (await trigger()).last_error?.code === 'topic_claimed');
  await publisher.publish(source, { url: url(1) });
  const letters = () => publisher.call('GET', '/dead_letters') as Promise<{ reason: string }[]>;
  const [letter] = await until(async () => ((await letters()).length > 0 ? letters() : undefined));
  assert.equal(letter?.reason, 'join_refused');

  await give(topic, publisher);
  assert.deepEqual(await publishTen(heir, topic), ['topic_claimed']);
  const { fired } = await trigger();
  await until(async () => (await trigger()).fired > fired);
  await publisher.call('POST', '/dead_letters/retry');
  await until(async () => (await letters()).length === 0);
  await publisher.call('DELETE', '/triggers/tick');
});
