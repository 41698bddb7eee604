import assert from 'node:assert/strict';
import { decode } from '@msgpack/msgpack';
import type { JoinRules } from '../../src/flow/joins/join_rules.ts';
import { outletsOf } from '../../src/flow/joins/join_store.ts';
import { readJoinToken } from '../../src/ids.ts';
import type { Readable } from './image.ts';

/** Asserts that joins, the entries that name them, and their open keys fit together. */
export async function assertJoins({ redis, keys }: Readable): Promise<void> {
  const tokens = (await redis.smembers(keys.joins())).sort();
  const subscribers = await redis.smembers(keys.subscribers());
  const ofClients: string[] = [];
  for (const key of await redis.keys(keys.joins_of('*'))) {
    const client = key.slice(keys.joins_of('').length);
    for (const name of await redis.smembers(key)) ofClients.push(`join:${name}:${client}`);
  }
  assert.deepEqual(ofClients.sort(), tokens, 'each join is one of its client');
  assert.deepEqual(subscribers.filter((token) => readJoinToken(token)).sort(), tokens);
  const expiring: string[] = [];
  for (const token of tokens) if (await assertJoin({ redis, keys }, token)) expiring.push(token);
  assert.deepEqual((await redis.zrange(keys.joins_expiring(), '0', '-1')).sort(), expiring);
  for (const [topic, token] of Object.entries(await redis.hgetall(keys.joins_into()))) {
    const into = (await redis.hget(keys.subscriber(token), 'into'))?.split(' ') ?? [];
    assert.ok(into.includes(topic), `${token} publishes to ${topic}`);
  }
  for (const [prefix, all] of [
    [keys.open_keys(''), keys.open_keys('*')],
    [keys.open_keys_since(''), keys.open_keys_since('*')],
  ] as const)
    for (const key of await redis.keys(all))
      assert.ok(tokens.includes(key.slice(prefix.length)), `${key} is of a join`);
}

/** Checks a join. Resolves with true if it has open keys. */
async function assertJoin({ redis, keys }: Readable, token: string): Promise<boolean> {
  const { callback, join, into } = await redis.hgetall(keys.subscriber(token));
  assert.equal(callback, 'join', `${token} has no callback`);
  const rules = JSON.parse(join ?? '') as JoinRules;
  // A join loses a topic that is given to another client when a join of that client publishes to it.
  for (const topic of into?.match(/\S+/g) ?? [])
    assert.ok(outletsOf(rules).includes(topic), `${token} publishes to ${topic}`);
  assert.deepEqual(
    (await redis.smembers(keys.subscriber_topics(token))).sort(),
    rules.sources.map(({ topic }) => topic).sort(),
    `${token} is subscribed to its sources`,
  );
  const since = await redis.zrange(keys.open_keys_since(token), '0', '-1');
  const hash = await redis.hgetallBuffer(keys.open_keys(token));
  assert.deepEqual(Object.keys(hash).sort(), [...since].sort(), `each open key of ${token} has its place`);
  for (const [key, record] of Object.entries(hash)) {
    const [sinceMs] = decode(record) as [number];
    assert.equal(Number(await redis.zscore(keys.open_keys_since(token), key)), sinceMs, key);
  }
  return since.length > 0;
}
