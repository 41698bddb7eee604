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
  ...{ token, events, oldestAgeMs: 5000, deadLetters: 0, bytes: 0, healthPoints: undefined, isPaused: false },
  ...more,
});

function reading(atMs: number, subscribers: Subscriber[], delivered = 0, used = 1000): StandingsReading {
  const memory = { used, highMark: 10_000 };
  return { atMs, subscribers, totalsOf: () => ({ delivered, failed: 0 }), topics: [], memory };
}

const through = (standings: Standings) => unpackStandings(packStandings(standings));

test('standings have what the census found, joins apart, and come back from Redis as they were', () => {
  const standings = standingsAt(
    reading(100_000, [
      subscriber('a', 3, { bytes: 700, healthPoints: 90 }),
      subscriber('b', 0),
      subscriber('join:x:a', 1),
    ]),
    undefined,
  );
  assert.deepEqual(standings.subscribers[0], {
    ...{
      token: 'a',
      queued: 3,
      oldestAtMs: 95_000,
      deadLetters: 0,
      bytes: 700,
      healthPoints: 90,
      isPaused: false,
    },
    ...{ delivered: 0, failed: 0, growth: 0, totalDelivered: 0, totalFailed: 0 },
    sinceMs: 100_000,
  });
  assert.deepEqual(
    [standings.subscribers[1]?.oldestAtMs, standings.subscribers[1]?.healthPoints],
    [null, 100],
  );
  assert.deepEqual(
    [standings.subscribers.length, standings.joins.map(({ token }) => token), standings.members],
    [2, ['join:x:a'], 3],
  );
  const withTopics = standingsAt({ ...reading(100_000, []), topics: [['__proto__', 7]] }, undefined);
  for (const each of [standings, withTopics]) assert.deepEqual(through(each), each);
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

test('rates are true from the second sample of a bus on, and from the first of a subscriber that came later', () => {
  const at = (atMs: number, tokens: string[], delivered: number, before?: Standings) => {
    const subscribers = tokens.map((token) => subscriber(token, delivered / 10));
    const now = standingsAt(reading(atMs, subscribers, delivered), before);
    return through(now) ?? now;
  };
  const first = at(100_000, ['a'], 20);
  const second = at(110_000, ['a', 'new'], 40, first);
  const third = at(120_000, ['a', 'new'], 60, second);
  const ratesIn = (standings: Standings) =>
    standings.subscribers.map(({ token, delivered, growth }) => [token, delivered, growth]);
  assert.deepEqual(ratesIn(first), [['a', 0, 0]]);
  assert.deepEqual(ratesIn(second), [
    ['a', 2, 0.2],
    ['new', 4, 0.4],
  ]);
  assert.deepEqual(ratesIn(third)[0], ['a', 2, 0.2]);
  const rateOfNew = third.subscribers[1]?.delivered ?? 0;
  assert.ok(rateOfNew > 2.9 && rateOfNew < 3, `the mean of 4 and 2: ${rateOfNew}`);
});

test('rates of topics are true as those of subscribers are, and none if counters are lost', () => {
  const at = (atMs: number, topics: StandingsReading['topics'], before?: Standings) => {
    const now = standingsAt({ ...reading(atMs, []), topics }, before);
    return through(now) ?? now;
  };
  const ratesIn = ({ topics }: Standings) => topics.map(({ name, published }) => [name, published]);
  const first = at(100_000, [['a', 20]]);
  const rows: StandingsReading['topics'] = [
    ['a', 40],
    ['new', 90],
  ];
  const second = at(110_000, rows, first);
  assert.deepEqual(ratesIn(first), [['a', 0]]);
  assert.deepEqual(ratesIn(second), [
    ['a', 2],
    ['new', 9],
  ]);
  assert.deepEqual(ratesIn(at(120_000, [['a', 1]], second)), [['a', 0]]);
  let last = second;
  for (let n = 1; n <= 300; n++) last = at(110_000 + n * 10_000, rows, last);
  assert.deepEqual(ratesIn(last), [
    ['a', 0],
    ['new', 0],
  ]);
});

test('a subscriber or topic of a partition that was away before is not taken for a new one', () => {
  const partitions = [{ published: 0, delivered: 0, failed: 0, dropped: 0 }];
  const before = standingsAt({ ...reading(100_000, []), partitions }, undefined);
  const topics: StandingsReading['topics'] = [['a', 5000]];
  const now = standingsAt({ ...reading(110_000, [subscriber('a', 9)], 1000), topics, partitions }, before);
  assert.deepEqual([now.subscribers[0]?.delivered, now.subscribers[0]?.growth], [0, 0]);
  assert.equal(now.topics[0]?.published, 0);
});
