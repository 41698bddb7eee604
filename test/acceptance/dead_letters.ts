import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Client } from '../../harness/http/client.ts';
import { answer } from '../../harness/http/receiver.ts';
import type { Scene } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { bus } from './default_bus.ts';

const url = (n: number) => `https://shop.example.com/widgets/${n}`;

interface Letter {
  id: string;
  reason: string;
  attempts: number;
  history: { status: number | null; reason: string; answer: string | null }[];
  events: { url: string }[];
}

/** Makes a subscriber whose batches become dead letters at the second attempt. */
async function strict(t: TestContext): Promise<Scene> {
  bus.announceError(/dead letter/);
  const scene = await bus.scene(t);
  const { subscriber, topic, receiver } = scene;
  const wanted = { topics: [topic], callback: receiver.callback, uuid: 'me' };
  await subscriber.call('POST', '/subscription', { ...wanted, max_attempts: 2 });
  return scene;
}

const lettersOf = (client: Client) => client.call('GET', '/dead_letters') as Promise<Letter[]>;

test('a batch that is never accepted becomes a dead letter, and is delivered when it is retried', async (t) => {
  const { publisher, topic, subscriber, receiver } = await strict(t);
  const refuse = answer.status(503);
  receiver.answers(refuse, refuse);
  await publisher.publish(topic, { url: url(1) });
  const [letter] = await until(async () => {
    const letters = await lettersOf(subscriber);
    return letters.length > 0 ? letters : undefined;
  });
  assert.ok(letter);
  const whole = (await subscriber.call('GET', `/dead_letters/${letter.id}`)) as Letter;
  assert.deepEqual([whole.reason, whole.attempts], ['max_attempts', 2]);
  assert.deepEqual(
    whole.history.map(({ status }) => status),
    [503, 503],
  );
  assert.deepEqual(
    whole.events.map((event) => event.url),
    [url(1)],
  );
  assert.deepEqual((await subscriber.report()).dead_letters, { batches: 1, events: 1 });
  assert.equal((await subscriber.report()).events.queued, 0);

  await subscriber.call('POST', `/dead_letters/${letter.id}/retry`);
  const { id, attempt, body } = await receiver.delivery(3);
  assert.deepEqual([id, attempt, body], [letter.id, 1, receiver.deliveries[0]?.body]);
  await until(async () => (await subscriber.report()).events.sent === 1);
  assert.deepEqual(await lettersOf(subscriber), []);
});

test('dead letters delay no other delivery, and are counted', async (t) => {
  const { publisher, topic, subscriber, receiver } = await strict(t);
  receiver.usual = (response) => {
    const last = receiver.deliveries.at(-1);
    answer.status(last?.events[0]?.url === url(2) ? 500 : 204)(response);
  };
  await publisher.publish(topic, [{ url: url(1) }, { url: url(2) }, { url: url(3) }]);
  await until(async () => (await lettersOf(subscriber)).length === 1);
  await until(() => receiver.urls.length === 2);
  assert.deepEqual(receiver.urls.toSorted(), [url(1), url(3)]);
  const labels = { subscriber: subscriber.token };
  assert.equal(await bus.metric('routemaster_subscriber_dead_letters_batches', labels), 1);
  const dead = { ...labels, reason: 'max_attempts' };
  await until(async () => (await bus.metric('routemaster_events_dead_lettered_total', dead)) === 1);
  const counted = async (name: string) => bus.metric(`routemaster_events_${name}_total`, labels);
  await until(async () => (await counted('removed')) === 3);
  assert.equal(await counted('added'), 3);
});
