import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fairLosses } from '../../src/maintenance/fair_share.ts';

describe('what is dropped fairly', () => {
  const cases: [what: string, holdings: [string, number][], free: number, losses: [string, number][]][] = [
    [
      'is only of the largest, if it stays the largest',
      [
        ['a', 100],
        ['b', 900],
        ['c', 100],
      ],
      500,
      [['b', 500]],
    ],
    [
      'is of the larger ones, down to one share',
      [
        ['a', 100],
        ['b', 900],
        ['c', 500],
      ],
      800,
      [
        ['b', 600],
        ['c', 200],
      ],
    ],
    [
      'is of all alike, if they hold the same',
      [
        ['a', 500],
        ['b', 500],
      ],
      200,
      [
        ['a', 100],
        ['b', 100],
      ],
    ],
    [
      'is everything, if that is not enough',
      [
        ['a', 100],
        ['b', 50],
      ],
      1000,
      [
        ['a', 100],
        ['b', 50],
      ],
    ],
    ['is nothing, if nobody holds anything', [], 100, []],
    [
      'is of a client and all its joins together, as much of each',
      [
        ['a', 500],
        ['join:x:b', 400],
        ['join:y:b', 200],
        ['b', 200],
        ['join:z:c', 300],
      ],
      300,
      [
        ['join:x:b', 150],
        ['join:y:b', 75],
        ['b', 75],
      ],
    ],
  ];
  for (const [what, holdings, free, losses] of cases)
    test(what, () => {
      const found = fairLosses(
        holdings.map(([token, bytes]) => ({ token, bytes })),
        free,
      );
      assert.deepEqual(
        found.map(({ token, bytes }) => [token, bytes]),
        losses,
      );
      const held = new Map(holdings);
      for (const { token, bytes, part } of found) assert.equal((held.get(token) ?? 0) * part, bytes);
    });
});
