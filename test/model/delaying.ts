import assert from 'node:assert/strict';
import type { Timed } from '../../harness/scripts/bus_inputs.ts';
import type { Model } from './model.ts';
import { pick } from './step.ts';
import type { DelayedEvent } from './things.ts';
import type { World } from './world.ts';

/** Time by which a step `pass` moves the clock. Events are due between two passes, each at a time of its own. */
const PASS_MS = 100_000;

export interface DelayWish {
  topic: string;
  client: string;
  /** For each event, the passes of time that it must wait at least; undefined if it is not delayed. */
  waits: (number | undefined)[];
  /** True if one event has the id of an event that waits already. */
  repeats: boolean;
  key: string | undefined;
}

/** Makes a publication with delayed events. */
export async function delay(world: World, model: Model, wish: DelayWish): Promise<string> {
  const { topic, client, waits, repeats, key } = wish;
  const ids = world.events(waits.length);
  const taken = model.delayed.find((each) => each.topic === topic)?.event;
  const last = waits.findLastIndex((wait) => wait !== undefined);
  if (repeats && taken && last >= 0) ids[last] = taken;
  const events = ids.map((id, index): Timed => {
    const wait = waits[index];
    return wait === undefined ? { id } : { id, delay: wait * PASS_MS + PASS_MS / 2 + world.tick() };
  });
  const later = events.flatMap(({ id, delay: ms }): DelayedEvent[] =>
    ms === undefined ? [] : [{ topic, event: id, dueMs: model.nowMs + ms }],
  );
  const now = events.filter((each) => each.delay === undefined).map(({ id }) => id);
  const idempotency = key ? { digest: key.padEnd(22, '-'), fingerprint: topic } : undefined;
  const expected = model.delay(
    { topic, client, events: now, ...(idempotency && { key: idempotency }) },
    later,
  );
  const { outcome } = await world.bus.delay(world.seed(), topic, events, {
    client,
    ...(idempotency && { key: idempotency }),
  });
  assert.equal(outcome, expected, 'what became of the publication');
  return `delay ${client} ${topic} ${ids} ${waits}: ${outcome}`;
}

/** Publishes the events that are due, in one call. */
export async function publishDelayed(world: World, model: Model): Promise<string> {
  const expected = model.publishDelayed();
  const { published, lost, isLeft } = await world.bus.publishDelayed(world.seed());
  assert.deepEqual([published, lost, isLeft], [expected, [], false]);
  return `publishDelayed ${JSON.stringify(published)}`;
}

/** Deletes a delayed event for this client; for root if `client` is empty. */
export async function deleteDelayed(world: World, model: Model, n: number, client: string): Promise<string> {
  const delayed = pick(model.delayed, n);
  if (!delayed) return 'deleteDelayed nothing';
  const { topic, event: id } = delayed;
  const mine = client === '' || model.publishers.get(topic) === client;
  const outcome = await world.bus.store.run('delete_delayed', { topic, id, client });
  assert.equal(outcome, mine ? 'ok' : 'forbidden');
  if (mine) model.delayed.splice(model.delayed.indexOf(delayed), 1);
  return `deleteDelayed ${topic} ${id} for ${client}: ${outcome}`;
}

/** Drops the `n` events of a topic that are due last. */
export async function dropDelayed(world: World, model: Model, topic: string, n: number): Promise<string> {
  const gone = model.delayedOf(topic).slice(-n);
  const drops = await world.bus.store.run('drop_delayed', { orders: [{ topic, maxDeleted: n }] });
  assert.deepEqual(
    drops.map((drop) => [drop.topic, drop.events]),
    gone.length > 0 ? [[topic, gone.length]] : [],
  );
  for (const each of gone) model.delayed.splice(model.delayed.indexOf(each), 1);
  return `dropDelayed ${topic} ${gone.map(({ event }) => event)}`;
}
