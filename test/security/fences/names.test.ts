import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';
import type { BusAnswerError } from '../../../harness/http/bus_client.ts';
import type { Client } from '../../../harness/http/client.ts';
import { until } from '../../../harness/until.ts';

const MAX_TOPICS_EACH = 1000;
const bus = busWithDefaultLimits({ env: { ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '0.5' } });
const victim = Victim.forTests(bus);
const EVENT = { url: 'https://evil.example.com/1' };

const topicNames = async () =>
  ((await bus.root.call('GET', '/topics')) as { name: string }[]).map(({ name }) => name);
const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}_${n}`);
const subscribeTo = (client: Client, topics: string[]) =>
  client.call('POST', '/subscription', { topics, callback: 'https://evil.example.com/', uuid: 'evil' });
const refusal = (call: Promise<unknown>) =>
  call.then(
    () => 'accepted',
    (error: BusAnswerError) => `${error.status} ${/"code":"(\w+)"/.exec(error.message)?.[1]}`,
  );

test('a topic that is deleted leaves no figures behind, and their sum stays', async (t) => {
  const attacker = await Attacker.start(bus, t);
  let rounds = 0;
  await besideAttack(victim, async (signal) => {
    while (!signal.aborted) {
      const topics = names(`figures_${++rounds}`, 10);
      await Promise.all(
        topics.map(async (topic) => {
          await attacker.client.publish(topic, EVENT);
          // Repeated, as the limit of the call rate refuses some.
          await until(
            async () => (await refusal(attacker.client.call('DELETE', `/topics/${topic}`))) === 'accepted',
          );
        }),
      );
    }
  });
  const removed = () => bus.metric('routemaster_events_published_total', { topic: '(removed)' });
  await until(async () => (await removed()) === 10 * rounds, { what: 'all are counted' });
  const series = await bus.store.redis.hlen(bus.store.keys.counters());
  assert.ok(series < 100, `${series} series after ${10 * rounds} topics`);
});

test('a client that may publish nothing keeps no topic names from others', async (t) => {
  const attacker = await Attacker.start(bus, t, { publish: [] });
  await besideAttack(victim, async () => {
    for (let round = 0; round < 11; round++)
      await subscribeTo(attacker.client, names(`taken_${round}`, MAX_TOPICS_EACH));
  });
  await victim.client.publish('a_new_topic', EVENT);
  const left = (await topicNames()).filter((name) => name.startsWith('taken_'));
  assert.equal(left.length, MAX_TOPICS_EACH, 'only those that it is subscribed to');
  await attacker.client.call('DELETE', '/subscriber');
  assert.deepEqual((await topicNames()).sort(), ['a_new_topic', victim.topic]);
});

test('a client owns no more than its share of the topics', async (t) => {
  const attacker = await Attacker.start(bus, t);
  const topics = names('owned', MAX_TOPICS_EACH);
  await besideAttack(victim, async () => {
    for (let from = 0; from < topics.length; from += 50)
      await Promise.all(topics.slice(from, from + 50).map((topic) => attacker.client.publish(topic, EVENT)));
  });
  assert.equal(await refusal(attacker.client.publish('one_more', EVENT)), '409 limit_reached');
  await attacker.client.publish('owned_1', EVENT);
  await victim.client.publish('victims_too', EVENT);
  await attacker.client.call('DELETE', '/topics/owned_2');
  await attacker.client.publish('one_more', EVENT);
});

test('a client whose scopes are narrowed keeps no subscription, and deletes no topic', async (t) => {
  const register = (scopes: object) =>
    bus.root.call('POST', '/api_tokens', { name: 'spy', token: 'spy-with-a-long-token', ...scopes });
  await register({});
  const spy = bus.clientOf('spy-with-a-long-token', 'x');
  const receiver = await bus.receiver(t);
  const subscribe = (topics: string[]) =>
    spy.call('POST', '/subscription', { topics, callback: receiver.callback, uuid: 'u', timeout: 0 });
  await spy.publish('plans', EVENT);
  await subscribe([victim.topic, 'plans', 'news_1']);

  await register({ publish: ['news_*'], subscribe: ['news_*'] });
  assert.deepEqual((await spy.report()).topics, ['news_1'], 'in the same step');
  await victim.client.publish(victim.topic, { url: 'https://victim.example.com/secret' });
  await until(async () => (await refusal(subscribe([victim.topic]))) === '403 forbidden');
  assert.ok(!(await spy.report()).topics.includes(victim.topic));
  assert.equal(receiver.deliveries.length, 0);

  assert.equal(await refusal(spy.call('DELETE', '/topics/plans')), '403 forbidden');
  assert.equal(await refusal(victim.client.publish('plans', EVENT)), '403 topic_claimed', 'it stays its own');
  await bus.root.call('DELETE', '/topics/plans');
  await victim.client.publish('plans', EVENT);
});

test('the public token of a client with a secret does not become its credential', async () => {
  const { token } = victim.client;
  const taken = bus.root.call('POST', '/api_tokens', { name: 'victim', token });
  assert.equal(await refusal(taken), '409 client_has_secret');
  assert.equal(await refusal(bus.clientOf(token, '').call('GET', '/topics')), '401 unauthenticated');
  await victim.client.publish(victim.topic, EVENT);
});
