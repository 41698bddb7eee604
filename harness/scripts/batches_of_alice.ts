import { eventText } from '../../src/publishing/event.ts';
import { until } from '../until.ts';
import type { Bus } from './bus.ts';
import { nthWord } from './names.ts';

const url = 'https://shop.example.com/1';
const timestamp = 1_700_000_000_000;
const id = `event-${timestamp}`;

/** Returns `n` equal events as the bus stores them. */
export function storedEvents(topic: string, n: number, data?: unknown): string[] {
  const event = eventText({ id, topic, type: 'update', url, timestamp, data: JSON.stringify(data) });
  return Array.from({ length: n }, () => event);
}

/**
 * Publishes `n` events of a topic into the batches `{seed}1`, …. Resolves when Redis's clock is a millisecond ahead, so
 * that later batches have later times.
 */
export async function publishEvents(bus: Bus, seed: string, topic: string, n: number): Promise<void> {
  await bus.publish(seed, topic, storedEvents(topic, n));
  const now = await bus.nowMs();
  await until(async () => (await bus.nowMs()) > now);
}

/** Closes a subscriber's batches to further events, as if their time had come. */
export async function closeBatches({ store }: Bus, token: string): Promise<void> {
  await store.redis.del(store.keys.batches_current(token));
  await store.redis.hdel(store.keys.batches_open(), token);
}

/**
 * Makes a subscriber, alice, with batches `aa1`, `ab1`, … of these sizes. They hold events of widgets and
 * gadgets in turn, and are ready to be acquired.
 */
export async function aliceWithBatches(bus: Bus, ...sizes: number[]): Promise<void> {
  await bus.subscribe('alice', { topics: ['widgets', 'gadgets'], timeout: 0 });
  for (const [index, size] of sizes.entries()) {
    await publishEvents(bus, nthWord(index), index % 2 ? 'gadgets' : 'widgets', size);
    await closeBatches(bus, 'alice');
  }
}
