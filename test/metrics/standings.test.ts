import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  packStandings,
  type Standings,
  type StandingsReading,
  standingsAt,
  unpackStandings,
} from '../../src/metrics/standings.ts';

type Subscriber = StandingsReading['subscribers'][number];

const subscriber = (token: string, events: number, more: Partial<Subscriber> = {}): Subscriber => ({
  ...{ token, events, oldestAgeMs: 5000, deadLetters: 0, healthPoints: undefined, isPaused: false },
  ...more,
});

function reading(atMs: number, subscribers: Subscriber[], delivered = 0, used = 1000): StandingsReading {
  const memory = { used, highMark: 10_000 };
  return { atMs, subscribers, totalsOf: () => ({ delivered, failed: 0 }), memory };
}

const through = (standings: Standings) => unpackStandings(packStandings(standings));

test('standings have what the census found, without joins, and come back from Redis as they were', () => {
  const standings = standingsAt(
    reading(100_000, [
      subscriber('a', 3, { healthPoints: 90 }),
      subscriber('b', 0),
      subscriber('join:x:a', 1),
    ]),
    undefined,
  );
  assert.deepEqual(standings.subscribers[0], {
    ...{ token: 'a', queued: 3, oldestAtMs: 95_000, deadLetters: 0, healthPoints: 90, isPaused: false },
    ...{ delivered: 0, failed: 0, growth: 0, totalDelivered: 0, totalFailed: 0 },
  });
  assert.deepEqual(
    [standings.subscribers[1]?.oldestAtMs, standings.subscribers[1]?.healthPoints],
    [null, 100],
  );
  assert.deepEqual([standings.subscribers.length, standings.members], [2, 3]);
  assert.deepEqual(through(standings), standings);
  assert.equal(unpackStandings(undefined), undefined);
});

test('rates follow what happens within minutes, and fall to none when it ends', () => {
  let last: Standings | undefined;
  const run = (samples: number, eventsPerSecond: number, growth: number) => {
    for (let n = 0; n < samples; n++) {
      const before = last?.subscribers[0];
      const delivered = (before?.totalDelivered ?? 0) + 10 * eventsPerSecond;
      const queued = (before?.queued ?? 10_000) + 10 * growth;
      last = through(
        standingsAt(reading((last?.atMs ?? 0) + 10_000, [subscriber('a', queued)], delivered), last),
      );
    }
    return last?.subscribers[0];
  };
  const busy = run(61, 50, -20);
  assert.ok(Math.abs((busy?.delivered ?? 0) - 50) < 0.1, String(busy?.delivered));
  assert.ok(Math.abs((busy?.growth ?? 0) + 20) < 0.1, String(busy?.growth));
  assert.equal(run(300, 0, 0)?.delivered, 0);
});
