import assert from 'node:assert/strict';
import { allows, readScopes } from '../../src/authentication/scope.ts';
import { joinToken } from '../../src/ids.ts';
import type { Scopes } from '../../src/routing/caller.ts';
import type { Partition } from '../../src/store/partition.ts';

/** Returns what a client may do. A client that does not exist has no limits. */
export async function scopesOf({ redis, keys }: Partition, client: string): Promise<Scopes> {
  const [publish = null, subscribe = null] = await redis.hmget(
    keys.api_token(client),
    'publish',
    'subscribe',
  );
  return readScopes(publish, subscribe);
}

/** Asserts that a client has nothing that its limits do not permit. */
export async function assertPermitted(store: Partition, client: string): Promise<void> {
  const { redis, keys } = store;
  const { publish, subscribe } = await scopesOf(store, client);
  for (const topic of await redis.smembers(keys.subscriber_topics(client)))
    assert.ok(allows(subscribe, topic), `${client} may subscribe to ${topic}`);
  for (const name of await redis.smembers(keys.joins_of(client))) {
    const token = joinToken(name, client);
    for (const topic of await redis.smembers(keys.subscriber_topics(token)))
      assert.ok(allows(subscribe, topic), `${name} may count ${topic}`);
    for (const topic of (await redis.hget(keys.subscriber(token), 'into'))?.match(/\S+/g) ?? [])
      assert.ok(allows(publish, topic), `${name} may publish to ${topic}`);
  }
  const triggers = Object.entries(await redis.hgetall(keys.triggers_of(client)));
  const isKnown = (await redis.hexists(keys.api_tokens(), client)) === 1;
  assert.ok(triggers.length === 0 || isKnown, `${client}, who has triggers, exists`);
  for (const [name, text] of triggers) {
    const topic = text.split('\n')[1] ?? '';
    const isPaused = await redis.hexists(keys.trigger(client, name), 'paused');
    assert.ok(isPaused || allows(publish, topic), `${name} of ${client} may publish to ${topic}`);
  }
}
