import assert from 'node:assert/strict';
import { DELAY_LIMITS, type Published } from '../../harness/scripts/bus_inputs.ts';
import { LANE_LIMIT, type Model } from './model.ts';
import type { Publication } from './things.ts';
import type { World } from './world.ts';

/** A publication that a client wants: the number of its events, and its idempotency key, if any. */
export interface Wish {
  topic: string;
  client: string;
  count: number;
  key: string | undefined;
}

const digestOf = (key: string) => key.padEnd(22, '-');

/** Makes some publications in one call. With the same idempotency key and topic, a publication counts as repeated. */
export async function publish(world: World, model: Model, wishes: Wish[]): Promise<string> {
  const publications = wishes.map(({ topic, client, count, key }): Publication => {
    const events = world.events(count);
    return {
      topic,
      client,
      events,
      ...(key && { key: { digest: digestOf(key), fingerprint: topic } }),
    };
  });
  const expected = model.publish(publications);
  const calls = publications.map(
    ({ topic, client, events, key }): Published =>
      key ? [topic, client, events, key] : [topic, client, events],
  );
  const { accepted, added } = await world.bus.publishAll(world.seed(), ...calls);
  assert.deepEqual(accepted, expected, 'what became of each publication');
  const copies = publications.reduce(
    (sum, { events }, i) => sum + (Number(expected[i]) || 0) * events.length,
    0,
  );
  assert.equal(
    Object.values(added).reduce((sum, each) => sum + each, 0),
    copies,
    'how many events were added',
  );
  return `publish ${publications.map(({ topic, client, events, key }) => `${client} ${topic} ${events} ${key?.digest ?? ''}`)}`;
}

export interface Request {
  token: string;
  topics: string[];
  max: number;
  timeout: number;
  ordered: boolean;
  inFlight: number | undefined;
  proven: boolean;
}

/** Subscribes. A new subscriber may be `proven`, as if it had taken batches before; others keep what they are. */
export async function subscribe(world: World, model: Model, request: Request): Promise<string> {
  const { token, topics, max, timeout, ordered } = request;
  const before = model.subscribers.get(token);
  const proven = request.proven && !before;
  const wanted = {
    topics,
    max,
    timeout,
    ordered: Number(ordered) as 0 | 1,
    inFlight: request.inFlight ?? '',
    laneLimit: LANE_LIMIT,
    proven,
  } as const;
  await world.bus.subscribe(token, wanted);
  model.subscribe(token, { topics, max, ordered, inFlight: request.inFlight ?? before?.inFlight }, proven);
  return `subscribe ${JSON.stringify({ ...request, proven })}`;
}

export async function pause(
  world: World,
  model: Model,
  token: string,
  by: 'operator' | 'subscriber',
): Promise<string> {
  const outcome = model.pause(token, by);
  assert.equal(await world.bus.pause(token, by), outcome);
  return `pause ${token} by ${by}: ${outcome}`;
}

export async function resume(
  world: World,
  model: Model,
  token: string,
  by: 'operator' | 'subscriber',
): Promise<string> {
  const outcome = model.resume(token, by);
  assert.equal(await world.bus.resume(token, by), outcome);
  return `resume ${token} by ${by}: ${outcome}`;
}

export async function unsubscribe(world: World, model: Model, token: string, topic: string): Promise<string> {
  const known = model.topics.has(topic);
  const left = model.unsubscribe(token, topic);
  const expected = !model.subscribers.has(token)
    ? 'subscriber_not_found'
    : !known
      ? 'topic_not_found'
      : left
        ? 'ok'
        : 'not_subscribed';
  assert.equal(await world.bus.store.run('unsubscribe', { token, topic, isForeign: false }), expected);
  return `unsubscribe ${token} ${topic}`;
}

export async function leave(world: World, model: Model, token: string): Promise<string> {
  const { found } = await world.bus.store.run('remove_subscriber', { token, series: [] });
  assert.equal(found, model.subscribers.has(token));
  model.leave(token);
  return `leave ${token}`;
}

export async function giveTopic(world: World, model: Model, topic: string, client: string): Promise<string> {
  const { maxClientTopics, maxClientDelayed, maxClientBytes } = DELAY_LIMITS;
  const limits = { maxClientTopics, maxClientDelayed, maxClientBytes };
  const outcome = model.giveTopic(topic, client);
  assert.equal(await world.bus.store.run('give_topic', { topic, client, ...limits }), outcome);
  return `giveTopic ${topic} ${client}: ${outcome}`;
}

export async function removeTopic(world: World, model: Model, topic: string): Promise<string> {
  const outcome = model.topics.has(topic) ? 'ok' : 'topic_not_found';
  const subscriptions = [...model.subscribers.values()].filter(({ topics }) => topics.has(topic)).length;
  const delayed = model.delayedOf(topic).length;
  const expected = { outcome, delayed, subscriptions: outcome === 'ok' ? subscriptions : 0, partitions: [] };
  assert.deepEqual(await world.bus.store.run('remove_topic', { topic, series: [] }), expected);
  model.removeTopic(topic);
  return `removeTopic ${topic}`;
}
