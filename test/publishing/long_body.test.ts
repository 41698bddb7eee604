import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { threadCpuSince } from '../../harness/thread_cpu.ts';
import { withoutSpaces } from '../../harness/without_spaces.ts';
import { BusError } from '../../src/errors.ts';
import type { ReadEvent } from '../../src/publishing/event_fields.ts';
import { isLong, readEvents, readInSteps } from '../../src/publishing/event_input.ts';
import { DIALECTS } from '../../src/routing/dialect.ts';

const LIMITS = { maxEventDataBytes: 65_536, ...DIALECTS.none.events };
/** Number of random bodies; four times as many with LONG_BODIES. */
const RUNS = process.env.LONG_BODIES ? { array: 100, changed: 2000 } : { array: 25, changed: 500 };
const url = 'https://a.example.com/w/1';
const event = (data: string, id = 'x') => `{"id":"${id}","type":"noop","url":"${url}","data":${data}}`;

interface Read {
  texts: string[];
  steps: number;
  longestMs: number;
}

function read(text: string, isNdjson = false): Read {
  const body = { text, isNdjson, topic: 'widgets', nowMs: 5, limits: LIMITS };
  const texts = (events: readonly ReadEvent[]) => events.map((each) => withoutSpaces(String(each)));
  if (!isLong(body)) return { texts: texts(readEvents(body)), steps: 1, longestMs: 0 };
  const reading = readInSteps(body);
  let longestMs = 0;
  for (let steps = 1; ; steps++) {
    const tookMs = threadCpuSince();
    const step = reading.next();
    longestMs = Math.max(longestMs, tookMs());
    if (step.done) return { texts: texts(step.value), steps, longestMs };
  }
}

function refusal(body: string, ndjson = false): BusError {
  try {
    read(body, ndjson);
  } catch (error) {
    if (error instanceof BusError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

const PADDING = event(JSON.stringify('}],[{"\\"'.repeat(900)));

describe('a long body is read in steps, and comes out as if it were read at once', () => {
  const anyData = fc
    .json({ maxDepth: 4, stringUnit: 'binary' })
    .filter((json) => json !== 'null' && !/\d{19}/.test(json));
  const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);

  test('as an array', () => {
    const bodies = fc.array(fc.tuple(anyData, space), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(bodies, space, (items, outer) => {
        const events = items.flatMap(([data, gap]) => [`${gap}${event(data)}${gap}`, PADDING, PADDING]);
        const many = Array(10).fill(events).flat();
        const { texts, steps } = read(`${outer}[${many.join()}]${outer}`);
        assert.ok(steps > 1);
        assert.deepEqual(
          texts,
          many.flatMap((each) => read(each).texts),
        );
      }),
      { numRuns: RUNS.array },
    );
  });

  test('as NDJSON', () => {
    const lines = Array.from({ length: 500 }, (_, n) => event(`"${'x'.repeat(n)}"`));
    const { texts, steps } = read(lines.join('\n\r\n\n'), true);
    assert.ok(steps > 1);
    assert.deepEqual(
      texts,
      lines.flatMap((each) => read(each).texts),
    );
  });

  test('with 64-bit numbers in any event', () => {
    const events = Array.from({ length: 1000 }, (_, n) =>
      event(`[${2n ** 63n + BigInt(n)},"${'1,'.repeat(n)}"]`),
    );
    const { texts } = read(`[${events.join()}]`);
    for (const [n, text] of texts.entries()) assert.ok(text.includes(`[${2n ** 63n + BigInt(n)},`));
  });
});

test('all data that an event may have can be sent escaped, as Go sends <', () => {
  const data = '<'.repeat(LIMITS.maxEventDataBytes - 2);
  const written = event(`"${data.replaceAll('<', '\\u003c')}"`);
  for (const { texts } of [
    read(written),
    read(`[${written}, ${written}]`),
    read(`${written}\n${written}`, true),
  ])
    for (const text of texts) assert.ok(text.endsWith(`,"data":"${data}"}`));
});

describe('an event of many values', () => {
  const list = (value: string, bytes: number) => {
    const values = Array(Math.floor((bytes - 1) / (value.length + 1))).fill(value);
    return event(`[${values.join()}]`);
  };
  const members = Array.from({ length: 60_000 }, (_, n) => `"${n}":1`);

  for (const value of ['0', '{}', '""', '"],["', '[[]]']) {
    test(`is accepted if its data has not too many bytes: ${value}`, () => {
      const full = list(value, LIMITS.maxEventDataBytes);
      assert.equal(read(`[${PADDING},${full},${full}]`).texts.length, 3);
      assert.equal(read(`${full}\n${full}`, true).texts.length, 2);
      assert.equal(read(full).texts.length, 1);
    });
  }

  for (const [title, heavy] of [
    ['numbers', list('0', 390_000)],
    ['objects', list('{}', 390_000)],
    ['texts', list('""', 390_000)],
    ['members', event(`{${members.join()}}`)],
  ] as const) {
    test(`is refused before it is parsed: ${title}`, () => {
      for (const [error, index] of [
        [refusal(heavy), undefined],
        [refusal(`[${PADDING},${PADDING},${heavy}]`), 2],
        [refusal(`[${event('1')},${heavy},${PADDING}]`), 1],
        [refusal(`${PADDING}\n${heavy}`, true), 1],
      ] as const) {
        assert.match(error.message, /81920 brackets, commas and quotes/);
        assert.deepEqual([error.code, error.members.index], ['bad_event', index]);
      }
    });
  }
});

describe('a long body that is no JSON is refused, wherever it is wrong', () => {
  const good = Array(30).fill(PADDING);
  const bodies: [title: string, body: string][] = [
    ['without an end', `[${good.join()}`],
    ['with an end too early', `[${good.join()}]]`],
    ['with something behind it', `[${good.join()}] x`],
    ['with an array behind it', `[${good.join()}][]`],
    ['with a comma at the end', `[${good.join()},]`],
    ['with a comma at the beginning', `[,${good.join()}]`],
    ['with two commas', `[${good.join()},,${good.join()}]`],
    ['with a comma for each event', `[${good.join(',,')}]`],
    ['with other brackets at the end', `[${good.join()}}`],
    ['with brackets in disorder', `[${good.join()},{"type":[}],${good.join()}]`],
    ['with a string without end', `[${good.join()},"${good.join()}]`],
    ['with a character in between', `[${good.join()}x,${good.join()}]`],
    ['with a space of another kind', `[${good.join()}]\u00a0`],
  ];
  for (const [title, body] of bodies) {
    test(title, () => {
      assert.throws(() => JSON.parse(body));
      assert.equal(refusal(body).code, 'bad_body');
    });
  }

  test('as JSON.parse would refuse it', () => {
    const body = `[${good.join()}]`;
    const places = fc.tuple(fc.nat(body.length), fc.constantFrom(...'[]{},":\\ 1x'), fc.boolean());
    fc.assert(
      fc.property(places, ([at, character, replaces]) => {
        const changed = body.slice(0, at) + character + body.slice(replaces ? at + 1 : at);
        let isJson = true;
        try {
          JSON.parse(changed);
        } catch {
          isJson = false;
        }
        if (isJson) return;
        assert.match(refusal(changed).code, /^bad_(body|event)$/);
      }),
      { numRuns: RUNS.changed },
    );
  });
});

describe('a body that would take long to parse is refused early', () => {
  const MIB = 2 ** 20;
  const GOOD = `[${Array(5 * 2 ** 17)
    .fill('{"a":1}')
    .join()}]`;

  /**
   * Returns the CPU time (ms) of parsing a good body of 5 MiB, about 40 ms. Refusing a bad body takes less, about 8 ms.
   * Before bad bodies were refused early, each took 100 to 1,200 ms.
   */
  function parsingMs(): number {
    const tookMs = threadCpuSince();
    JSON.parse(GOOD);
    return tookMs();
  }

  const bodies: [title: string, body: string, ndjson?: boolean][] = [
    ['of brackets', '['.repeat(5 * MIB)],
    ['of brackets in an event', `[${event('['.repeat(5 * MIB))}]`],
    ['of objects in an event', event('{"a":'.repeat(MIB))],
    ['of one number', '1'.repeat(5 * MIB)],
    ['of one number in an array', `[${'1'.repeat(5 * MIB)}]`],
    ['with a long number among many', `[${event(`[${'1,'.repeat(500_000)}12345678901234567]`)}]`],
    ['with a long number beside many', `[${'1,'.repeat(2 * MIB)}12345678901234567]`],
    ['of members', `{${Array.from({ length: 400_000 }, (_, n) => `"k${n}":1`)}}`],
    ['of numbers on lines', '1\n'.repeat(2 * MIB), true],
    ['of halves of strings', '["'.repeat(2 * MIB)],
    ['of escapes', `["${'\\"'.repeat(2 * MIB)}`],
    ['of spaces', ' '.repeat(5 * MIB)],
    ['of spaces and brackets', `[${' '.repeat(5 * MIB - 2)}]`],
  ];
  for (const [title, body, ndjson] of bodies) {
    test(title, () => {
      const tookMs = threadCpuSince();
      assert.match(refusal(body, ndjson).code, /^(bad_(body|event)|body_too_large)$/);
      const refusedMs = tookMs();
      const parsedMs = parsingMs();
      assert.ok(refusedMs < parsedMs, `${refusedMs} ms, and a good body ${parsedMs} ms`);
    });
  }

  test('10,000 good events, or millions of empty lines, are read in steps that are each short', () => {
    const empty = '\n'.repeat(5 * MIB - 1000) + event('1');
    assert.ok(read(empty, true).longestMs < parsingMs());
    const events = Array.from({ length: 10_000 }, (_, n) => event(`"${'x'.repeat(400)}"`, `e${n}`));
    for (const [body, ndjson] of [
      [`[${events.join()}]`, false],
      [events.join('\n'), true],
    ] as const) {
      const { texts, longestMs } = read(body, ndjson);
      assert.equal(texts.length, 10_000);
      assert.ok(longestMs < parsingMs(), `${longestMs} ms`);
    }
  });

  test('and an unknown field is repeated in part', () => {
    const { message, members } = refusal(`{"${'x'.repeat(10_000)}":1}`);
    assert.ok(message.length < 300, message);
    assert.equal(members.field, 'x'.repeat(100));
  });
});
