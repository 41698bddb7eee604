import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Cron } from 'croner';
import fc from 'fast-check';
import { threadCpuSince } from '../../../harness/thread_cpu.ts';
import { BadCron, CronTimes } from '../../../src/flow/triggers/cron.ts';
import type { Times } from '../../../src/flow/triggers/plan.ts';
import { type Zone, zoneCalled } from '../../../src/flow/triggers/zone.ts';

const NOW = Date.parse('2026-11-22T10:00:00Z');
const HOUR_MS = 3_600_000;

const zone = (name: string): Zone => zoneCalled(name) ?? assert.fail(name);
const cron = (text: string, name = 'UTC') => CronTimes.of(text, zone(name));

/** Returns the next `count` times after `after`, as ISO texts. */
function next(times: Times, after: string, count: number): string[] {
  const found: string[] = [];
  let at: number | undefined = Date.parse(after);
  while (found.length < count) {
    at = times.next(at);
    if (at === undefined) break;
    found.push(new Date(at).toISOString().replace('.000Z', 'Z'));
  }
  return found;
}

describe('a cron expression', () => {
  test('has five fields, or six with the second in front', () => {
    assert.deepEqual(next(cron('0 9 * * MON-FRI', 'Europe/London'), '2026-07-03T00:00:00Z', 3), [
      '2026-07-03T08:00:00Z',
      '2026-07-06T08:00:00Z',
      '2026-07-07T08:00:00Z',
    ]);
    assert.deepEqual(next(cron('*/20 * * * * *'), '2026-07-03T00:00:30Z', 2), [
      '2026-07-03T00:00:40Z',
      '2026-07-03T00:01:00Z',
    ]);
  });

  test('comes in leap years and at ends of months', () => {
    assert.deepEqual(next(cron('0 0 29 2 *'), '2026-01-01T00:00:00Z', 2), [
      '2028-02-29T00:00:00Z',
      '2032-02-29T00:00:00Z',
    ]);
    assert.deepEqual(next(cron('0 0 29 2 *'), '2096-03-01T00:00:00Z', 1), ['2104-02-29T00:00:00Z']);
    assert.deepEqual(next(cron('0 0 L * *'), '2027-01-31T00:00:00Z', 2), [
      '2027-02-28T00:00:00Z',
      '2027-03-31T00:00:00Z',
    ]);
    assert.deepEqual(next(cron('0 0 31 * *'), '2027-01-31T00:00:00Z', 2), [
      '2027-03-31T00:00:00Z',
      '2027-05-31T00:00:00Z',
    ]);
  });
});

// Berlin goes from 2:00 to 3:00 on 29 March 2026, and from 3:00 to 2:00 on 25 October.
describe('where the clock goes forward', () => {
  test('a fixed time that is skipped comes at the end of the gap', () => {
    assert.deepEqual(next(cron('30 2 * * *', 'Europe/Berlin'), '2026-03-28T00:00:00Z', 3), [
      '2026-03-28T01:30:00Z',
      '2026-03-29T01:00:00Z',
      '2026-03-30T00:30:00Z',
    ]);
  });

  test('also if the gap ends at midnight, so on another day', () => {
    // Nuuk goes from 23:00 on 28 March to 0:00 on 29 March.
    const nuuk = (text: string) => cron(text, 'America/Nuuk');
    assert.deepEqual(next(nuuk('30 23 * * *'), '2026-03-28T00:00:00Z', 3), [
      '2026-03-28T01:30:00Z',
      '2026-03-29T01:00:00Z',
      '2026-03-30T00:30:00Z',
    ]);
    assert.deepEqual(next(nuuk('0 23 * * SAT'), '2026-03-22T03:00:00Z', 1), ['2026-03-29T01:00:00Z']);
    const gapEndMs = Date.parse('2026-03-29T01:00:00Z');
    assert.equal(nuuk('30 23 * * *').previous(gapEndMs + 1), gapEndMs);
    assert.equal(nuuk('30 23 * * *').previous(gapEndMs), Date.parse('2026-03-28T01:30:00Z'));
  });

  test('other times that are skipped do not come', () => {
    assert.deepEqual(next(cron('*/30 1-3 * * *', 'Europe/Berlin'), '2026-03-28T23:59:00Z', 4), [
      '2026-03-29T00:00:00Z',
      '2026-03-29T00:30:00Z',
      '2026-03-29T01:00:00Z',
      '2026-03-29T01:30:00Z',
    ]);
  });
});

describe('where the clock goes back', () => {
  test('a fixed time that comes twice counts once, the first time', () => {
    assert.deepEqual(next(cron('30 2 * * *', 'Europe/Berlin'), '2026-10-24T12:00:00Z', 2), [
      '2026-10-25T00:30:00Z',
      '2026-10-26T01:30:00Z',
    ]);
  });

  test('other times that come twice count twice', () => {
    assert.deepEqual(next(cron('*/30 2 * * *', 'Europe/Berlin'), '2026-10-24T23:59:00Z', 5), [
      '2026-10-25T00:00:00Z',
      '2026-10-25T00:30:00Z',
      '2026-10-25T01:00:00Z',
      '2026-10-25T01:30:00Z',
      '2026-10-26T01:00:00Z',
    ]);
  });
});

const field = (min: number, max: number) =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant('*') },
    { weight: 3, arbitrary: fc.integer({ min, max }).map(String) },
    fc.uniqueArray(fc.integer({ min, max }), { minLength: 2, maxLength: 4 }).map((list) => list.join(',')),
    fc
      .tuple(fc.integer({ min, max }), fc.integer({ min, max }))
      .map((pair) => pair.sort((a, b) => a - b).join('-')),
    fc.integer({ min: 2, max: Math.min(20, max) }).map((step) => `*/${step}`),
  );
const expression = fc
  .tuple(
    fc.oneof(fc.constant('0'), fc.constant('0'), field(0, 59)),
    field(0, 59),
    field(0, 23),
    fc.oneof(fc.constant('*'), field(1, 31), fc.constant('L')),
    fc.oneof({ weight: 2, arbitrary: fc.constant('*') }, field(1, 12)),
    fc.oneof(
      { weight: 3, arbitrary: fc.constant('*') },
      field(0, 6),
      fc.constant('SUNL'),
      fc.constant('+SUN'),
    ),
  )
  .map((fields) => fields.join(' '));
// Zones without a change, and with changes of half an hour, of two hours, at midnight, and to an earlier time in
// winter.
const zoneName = fc.constantFrom(
  ...['UTC', 'Asia/Kolkata', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Antarctica/Troll'],
  ...['America/Santiago', 'Africa/Casablanca', 'Pacific/Chatham', 'America/Sao_Paulo'],
);
/** Times of clock changes in these zones, and the eve of 29 February. */
const change = fc.constantFrom(
  ...[
    '2026-03-29T01:00Z',
    '2026-10-25T01:00Z',
    '2026-03-08T07:00Z',
    '2026-11-01T06:00Z',
    '2026-04-04T15:00Z',
  ],
  ...[
    '2026-10-03T15:30Z',
    '2026-09-06T04:00Z',
    '2026-02-15T02:00Z',
    '2026-03-22T02:00Z',
    '2028-02-28T23:00Z',
  ],
);
const time = fc.oneof(
  fc
    .tuple(change, fc.integer({ min: -2 * HOUR_MS, max: 2 * HOUR_MS }))
    .map(([at, off]) => Date.parse(at) + off),
  fc.integer({ min: Date.parse('2026-01-01'), max: Date.parse('2032-01-01') }),
);

/** Returns the same schedule by croner alone, within the eight years before and after. */
function bare(text: string, name: string, nearMs: number): Cron {
  const year = new Date(nearMs).getUTCFullYear();
  return new Cron(`${text} ${year - 8}-${year + 8}`, { timezone: name, mode: '7-part' });
}

describe('whatever the expression, the zone and the time', () => {
  test('the times are those of croner, forwards and backwards', () => {
    const property = fc.property(expression, zoneName, time, (text, name, atMs) => {
      const [times, expected] = [cron(text, name), bare(text, name, atMs)];
      assert.equal(times.next(atMs), expected.nextRun(new Date(atMs))?.getTime(), 'next');
      assert.equal(times.previous(atMs), expected.previousRuns(1, new Date(atMs))[0]?.getTime(), 'previous');
    });
    fc.assert(property, { numRuns: 1500 });
  });

  test('times are counted as they come', () => {
    const property = fc.property(
      expression,
      zoneName,
      time,
      fc.nat(60 * HOUR_MS),
      (text, name, atMs, lengthMs) => {
        const times = cron(text, name);
        let [count, untilMs] = [0, atMs + lengthMs];
        for (let at = times.next(atMs); at !== undefined && at <= untilMs; at = times.next(at))
          if (++count === 300) untilMs = at;
        assert.equal(times.count(atMs, untilMs), count);
      },
    );
    fc.assert(property, { numRuns: 500 });
  });
});

describe('a hostile expression', () => {
  const refusal = (text: string): string => {
    try {
      return String(cron(text, 'Europe/Berlin').next(NOW));
    } catch (error) {
      assert.ok(error instanceof BadCron, String(error));
      return error.message;
    }
  };
  /** Expressions that no time fits, such as 30 February, a skipped hour in spring, or a Sunday that is a weekday. */
  const never = [
    ...[
      '0 0 30 2 *',
      '0 0 31 2,4,6,9,11 *',
      '* * 2 * 3 SUNL',
      '* 2 * 3 SUNL',
      '0 0 1W * +SUN',
      '* * * 1 * +SUN#5',
    ],
    `0 0 ${Array.from({ length: 31 }, (_, day) => `${day + 1}W`)} * +SUN`,
  ];

  test('never comes, which is known at once', () => {
    for (const text of never) {
      refusal(text);
      const tookMs = threadCpuSince();
      assert.equal(refusal(text), 'undefined', text);
      assert.ok(tookMs() < 250, `${text} took ${tookMs()} ms`);
    }
  });

  test('is refused before it takes time or memory', () => {
    const wrong = [
      ...['', ' ', '* * * *', '* * * * * * *', '@daily', '@reboot', 'a b c d e', '2026-01-01T00:00:00'],
      ...['1--100000000 * * * *', '0-100000000 * * * *', '*/100000000 * * * *', '60 * * * *', '* 24 * * *'],
      ...[
        '* * 0 * *',
        '* * 32 * *',
        '* * * 13 *',
        '* * * * 8',
        '* * * JANUARY *',
        '5-1 * * * *',
        '*/0 * * * *',
      ],
      `${'9'.repeat(100_000)} * * * *`,
      `${Array(5000).fill('1')} * * * *`,
      `${'*'.repeat(200)} * * * *`,
      `* * * * ${'MON-FRI,'.repeat(30)}`,
    ];
    const before = process.memoryUsage().heapUsed;
    for (const text of wrong) {
      const tookMs = threadCpuSince();
      assert.match(refusal(text), /^(must have|is not a cron expression)/, text);
      assert.ok(tookMs() < 100, text);
      assert.ok(refusal(text).length < 600);
    }
    assert.ok(process.memoryUsage().heapUsed - before < 50_000_000);
  });
});

test('a time zone is one of IANA, in any spelling, and takes memory once', () => {
  assert.equal(zoneCalled('europe/london'), zoneCalled('Europe/London'));
  for (const name of [
    '',
    'Mars/Olympus',
    '+01:00',
    '01:00',
    'Europe/London ',
    'x'.repeat(1000),
    'constructor',
  ])
    assert.equal(zoneCalled(name), undefined, name);
  assert.equal(zone('UTC').offsetMs(NOW), 0);
  assert.equal(zone('Asia/Kathmandu').offsetMs(NOW), 5.75 * HOUR_MS);
  assert.equal(zone('America/St_Johns').offsetMs(NOW), -3.5 * HOUR_MS);
});
