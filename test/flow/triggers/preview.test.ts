import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextTimes } from '../../../src/flow/triggers/computing.ts';
import { definitionText } from '../../../src/flow/triggers/definition.ts';

const EVENT = { type: 'noop', url: 'https://shop.example.com/' } as const;

test('each of the next times has a turn of its own, and rare ones count as calls', async () => {
  const preview = async (cron: string) => {
    const timing = { schedule: { cron, timezone: 'Europe/Berlin' }, start: 0, end: null, offset: 0 };
    const text = definitionText('r', { topic: 'widgets', event: EVENT, catchUp: 'latest', timing });
    let turns = 0;
    const turn = async () => void turns++;
    const stored = { client: 'shop', name: 'rare', text, state: {} };
    const { times, priceInCalls } = await nextTimes(stored, Date.UTC(2026, 0, 1), 100, turn);
    return { turns, found: times.length, priceInCalls };
  };
  const rare = await preview('30 2 * 3 +SUN#5');
  assert.deepEqual([rare.turns, rare.found], [100, 100]);
  const frequent = await preview('* * * * *');
  assert.ok(
    rare.priceInCalls > 2 && frequent.priceInCalls < rare.priceInCalls,
    `${rare.priceInCalls}, ${frequent.priceInCalls}`,
  );
  assert.deepEqual(await preview('0 0 30 2 *').then(({ turns, found }) => [turns, found]), [1, 0]);
});
