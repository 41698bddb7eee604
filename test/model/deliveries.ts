import assert from 'node:assert/strict';
import { shortName } from '../../harness/scripts/names.ts';
import { STATES } from '../../src/records/delivery.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Model } from './model.ts';
import type { Batch } from './things.ts';

/** The limit of a page that has all batches. */
const ALL = 1000;
const PAGE = 2;

interface Listed {
  name: string;
  token: string;
  state: string;
}

/**
 * Asserts that each batch that was ever opened is listed in the state that it has in the model. `opened` has the names
 * of all batches of subscribers that have not left since.
 */
export async function assertDeliveries(
  model: Model,
  store: Partition,
  opened: ReadonlyMap<string, string>,
  step: number,
): Promise<void> {
  const all = await list(store, {}, ALL);
  const found = Object.fromEntries(all.map(({ name, token, state }) => [name, `${state} ${token}`]));
  assert.equal(Object.keys(found).length, all.length, 'each batch is listed once');
  for (const name of opened.keys()) assert.ok(found[name], `${name}, which was opened, is in a state`);
  const expected = [
    ...model.batches.map((batch) => [batch.name, `${stateOf(model, batch)} ${batch.token}`]),
    ...model.letters.map(({ name, token }) => [name, `dead ${token}`]),
    ...[...model.records].map(([name, { token, state }]) => [name, `${state} ${token}`]),
  ];
  assert.deepEqual(found, Object.fromEntries(expected), 'each batch is in its state');
  await assertSome(store, all, step);
}

/** Asserts that a listing by subscriber or state has just the batches asked for. Each step asks for something else. */
async function assertSome(store: Partition, all: Listed[], step: number): Promise<void> {
  const tokens = [undefined, ...new Set(all.map(({ token }) => token))];
  const states = [undefined, ...STATES];
  const wanted = tokens[step % tokens.length];
  const state = states[Math.floor(step / tokens.length) % states.length];
  const isWanted = (each: Listed) =>
    (wanted === undefined || each.token === wanted) && (state === undefined || each.state === state);
  const names = (await list(store, { wanted, state }, PAGE)).map(({ name }) => name);
  assert.deepEqual(names.sort(), all.flatMap((each) => (isWanted(each) ? each.name : [])).sort());
  const one = all[step % Math.max(1, all.length)];
  if (one) await assertFound(store, one);
}

async function assertFound(store: Partition, { name, token, state }: Listed): Promise<void> {
  for (const tokens of [[], [token], ['somebody', token], ['somebody']]) {
    const id = idOf.get(name) ?? '';
    const { entries } = await store.run('find_delivery', { tokens, id, place: '0' });
    const found = entries.map((entry) => `${shortName(entry.id)} ${entry.subscriber} ${entry.state}`);
    assert.deepEqual(found, String(tokens) === 'somebody' ? [] : [`${name} ${token} ${state}`]);
  }
}

const idOf = new Map<string, string>();

async function list(
  store: Partition,
  { wanted, state }: { wanted?: string | undefined; state?: string | undefined },
  limit: number,
): Promise<Listed[]> {
  const listed: Listed[] = [];
  let place = {};
  let lastMs = Number.POSITIVE_INFINITY;
  for (;;) {
    const { entries, nextMs, nextId } = await store.run('list_deliveries', {
      ...{ state, tokens: wanted === undefined ? [] : [wanted], sinceMs: 0, limit },
      ...place,
    });
    for (const { id, subscriber, state, placeMs } of entries) {
      assert.ok(Number(placeMs) <= lastMs, 'the newest comes first');
      lastMs = Number(placeMs);
      idOf.set(shortName(id), id);
      listed.push({ name: shortName(id), token: subscriber, state });
    }
    if (nextMs === undefined) return listed;
    place = { placeMs: Number(nextMs), placeId: nextId };
  }
}

function stateOf(model: Model, batch: Batch): string {
  if (model.holderOf(batch) !== undefined) return 'in_flight';
  if (batch.open) return 'open';
  if (model.subscribers.get(batch.token)?.pausedBy) return 'paused';
  return batch.attempts > 0 ? 'retrying' : 'ready';
}
