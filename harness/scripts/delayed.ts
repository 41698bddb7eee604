import assert from 'node:assert/strict';
import type { Readable } from './image.ts';

interface DelayedState {
  id: string;
  dueMs: number;
  /** The JSON that will be delivered. */
  text: string;
}

/** Number of digits of an event's serial number. An entry, and a value of the hash of texts, begin with it. */
const SERIAL_DIGITS = 12;

/** Returns the delayed events of each topic, in the order in which they will be published. */
export async function readDelayed({ redis, keys }: Readable): Promise<Record<string, DelayedState[]>> {
  const found: Record<string, DelayedState[]> = {};
  for (const key of await redis.keys(keys.delayed_due('*'))) {
    const topic = key.slice(keys.delayed_due('').length);
    const entries = await redis.zrange(key, '0', '-1', 'WITHSCORES');
    const texts = await redis.hgetall(keys.delayed_events(topic));
    found[topic] = [];
    for (let i = 0; i < entries.length; i += 2) {
      const [entry = '', due] = entries.slice(i, i + 2);
      const id = entry.slice(SERIAL_DIGITS);
      const value = texts[id] ?? assert.fail(`${id} of ${topic} has a text`);
      assert.equal(
        value.slice(0, SERIAL_DIGITS),
        entry.slice(0, SERIAL_DIGITS),
        `${id} of ${topic} has one serial number`,
      );
      found[topic].push({ id, dueMs: Number(due), text: value.slice(SERIAL_DIGITS) });
    }
    assert.equal(Object.keys(texts).length, found[topic].length, `each text of ${topic} has an entry`);
  }
  return found;
}

/** Bytes that count for an event beside its text. lua/flow/delayed/delayed.lua has the same number. */
const OVERHEAD_BYTES = 250;

/** If due events wait for room in an outbox, their topic is listed this long after the call that found them due. */
const OUTBOX_WAIT_MS = 1000;

/**
 * Checks that each delayed event is whole and its topic exists, that topics are listed at the time of their first
 * event, and that the sums of the clients are right.
 */
export async function assertDelayed(store: Readable): Promise<void> {
  const { redis, keys } = store;
  const delayed = await readDelayed(store);
  const held: Record<string, Record<string, string>> = {};
  for (const [topic, events] of Object.entries(delayed)) {
    const [listedMs, dueMs] = [
      Number(await redis.zscore(keys.delayed_topics(), topic)),
      events[0]?.dueMs ?? 0,
    ];
    const waits = listedMs >= dueMs + OUTBOX_WAIT_MS;
    assert.ok(waits || listedMs === dueMs, `${topic} is listed by its first delayed event`);
    const publisher = (await redis.hget(keys.topic(topic), 'publisher')) ?? assert.fail(`${topic} exists`);
    const bytes = events.reduce((sum, { text }) => sum + Buffer.byteLength(text) + OVERHEAD_BYTES, 0);
    const { ':events': before = '0', ':bytes': bytesBefore = '0', ...topics } = held[publisher] ?? {};
    held[publisher] = {
      ':events': String(Number(before) + events.length),
      ':bytes': String(Number(bytesBefore) + bytes),
      ...topics,
      [topic]: String(bytes),
    };
  }
  const topics = await redis.zrange(keys.delayed_topics(), '0', '-1');
  assert.deepEqual(topics.sort(), Object.keys(delayed).sort(), 'topics with delayed events are listed');
  const texts = (await redis.keys(keys.delayed_events('*'))).map((key) =>
    key.slice(keys.delayed_events('').length),
  );
  assert.deepEqual(texts.sort(), Object.keys(delayed).sort(), 'only these have texts');
  const found: typeof held = {};
  for (const key of await redis.keys(keys.delayed_held('*')))
    found[key.slice(keys.delayed_held('').length)] = await redis.hgetall(key);
  assert.deepEqual(found, held, 'clients hold what their topics have');
}
