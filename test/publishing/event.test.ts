import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { anyUrl } from '../../harness/any_url.ts';
import { idsOfSameHash, luaHash } from '../../harness/fences/same_hash.ts';
import { withoutSpaces } from '../../harness/without_spaces.ts';
import { EVENT_TYPES } from '../../src/publishing/event.ts';
import { MAX_DATA_DEPTH } from '../../src/publishing/event_fields.ts';
import { readEvents } from '../../src/publishing/event_input.ts';
import { DIALECTS } from '../../src/routing/dialect.ts';

const NOW_MS = 1_795_166_913_608;
const LIMITS = { maxEventDataBytes: 65_536, ...DIALECTS.none.events };
const url = 'https://a.example.com/w/1';

const readAll = (text: string) =>
  readEvents({ text, isNdjson: false, topic: 'widgets', nowMs: NOW_MS, limits: LIMITS });
const stored = (text: string) => readAll(text).map((event) => withoutSpaces(String(event)));
const storedOne = (members: string) => String(stored(`{"type":"noop","url":"${url}",${members}}`));

describe('an event is stored as the JSON text that is delivered', () => {
  test('with its members in this order', () => {
    const members = '"data":{"b":1,"a":[]},"timestamp":5,"id":"order-7#2"';
    const expected = `{"id":"order-7#2","topic":"widgets","type":"noop","url":"${url}","t":5,"data":{"b":1,"a":[]}}`;
    assert.equal(storedOne(members), expected);
  });

  test('without data where it is null or missing, and with the time of its arrival', () => {
    const expected = `{"id":"x","topic":"widgets","type":"noop","url":"${url}","t":${NOW_MS}}`;
    assert.equal(storedOne('"id":"x"'), expected);
    assert.equal(storedOne('"id":"x","data":null,"timestamp":null'), expected);
  });

  test('with data that is false, 0 or empty', () => {
    for (const data of ['false', '0', '""', '[]', '{}'])
      assert.ok(storedOne(`"data":${data}`).endsWith(`,"data":${data}}`));
  });

  test('with an id of its own where the publisher gives none', () => {
    const body = JSON.stringify(Array(1000).fill({ type: 'noop', url, id: null }));
    const ids = stored(body).map((text) => JSON.parse(text).id);
    assert.equal(new Set(ids).size, 1000);
    assert.ok(ids.every((id) => /^[\w-]{16}$/.test(id)));
  });
});

describe('an event with a time of its own', () => {
  const PAST_MS = 100_000_000_000;
  const readPlain = (text: string) =>
    readAll(text).map((event) =>
      typeof event === 'string' ? withoutSpaces(event) : { ...event, text: withoutSpaces(event.text) },
    );
  const timed = (members: string) => readPlain(`{"id":"x","type":"noop","url":"${url}",${members}}`)[0];
  const before = `{"id":"x","topic":"widgets","type":"noop","url":"${url}","t":`;

  test('has that time, unless its publisher gives it another', () => {
    assert.deepEqual(timed(`"at":${PAST_MS}`), { id: 'x', at: PAST_MS, text: `${before}${PAST_MS}}` });
    assert.deepEqual(timed(`"at":${PAST_MS},"timestamp":5`), { id: 'x', at: PAST_MS, text: `${before}5}` });
    assert.deepEqual(timed('"delay":7,"timestamp":5'), { id: 'x', delay: 7, text: `${before}5}` });
  });

  test('leaves room for a time that only Redis knows', () => {
    assert.deepEqual(timed('"delay":7'), { id: 'x', delay: 7, text: before, rest: '}' });
    assert.deepEqual(timed('"delay":7,"data":[1]'), {
      id: 'x',
      delay: 7,
      text: before,
      rest: ',"data":[1]}',
    });
  });

  test('has none without a delay', () => {
    for (const members of ['"delay":0', '"delay":null', '"at":null', '"at":null,"delay":0'])
      assert.equal(timed(members), `${before}${NOW_MS}}`);
  });

  test('may stand among others', () => {
    const both = `[{"id":"x","type":"noop","url":"${url}"},{"id":"x","type":"noop","url":"${url}","at":${PAST_MS}}]`;
    assert.deepEqual(readPlain(both), [
      `${before}${NOW_MS}}`,
      { id: 'x', at: PAST_MS, text: `${before}${PAST_MS}}` },
    ]);
  });

  test('is known to clients of the Ruby Routemaster too, which never send one by chance', () => {
    const text = `{"type":"noop","url":"${url}","timestamp":"5","delay":7,"color":"teal"}`;
    const limits = { maxEventDataBytes: 65_536, ...DIALECTS.routemaster.events };
    const [event] = readEvents({ text, isNdjson: false, topic: 'widgets', nowMs: NOW_MS, limits });
    assert.equal(typeof event === 'object' && event.delay, 7);
  });
});

describe('events whose texts were chosen to have the same hash in Lua', () => {
  const COUNT = 1000;
  /** Returns how many of the texts have the hash that most of them have. */
  const largest = (texts: readonly string[]) =>
    Math.max(...Object.values(Object.groupBy(texts, luaHash)).map((group) => group?.length ?? 0));
  const event = { type: 'noop', url, timestamp: 1 };
  const after = `","topic":"widgets","type":"noop","url":"${url}","t":1}`;
  const ids = idsOfSameHash(COUNT, '{"id":"', after);

  test('would all have it without random spaces', () => {
    assert.equal(new Set(ids).size, COUNT);
    assert.equal(largest(ids.map((id) => `{"id":"${id}${after}`)), COUNT);
  });

  test('hardly ever have the same hash', () => {
    const texts = readAll(JSON.stringify(ids.map((id) => ({ id, ...event })))).map(String);
    assert.ok(largest(texts) < COUNT / 20, `${largest(texts)} of ${COUNT}`);
  });

  test('hardly ever have the same hash if they are delayed', () => {
    const start = idsOfSameHash(COUNT, '{"id":"', after.slice(0, -2));
    const texts = start.map(
      (id) => readAll(JSON.stringify({ id, ...event, timestamp: undefined, delay: 7 }))[0],
    );
    const known = texts.map((each) => (typeof each === 'object' ? each.text : ''));
    assert.ok(largest(known) < COUNT / 20, `${largest(known)} of ${COUNT}`);
  });
});

describe('numbers keep their digits', () => {
  for (const digits of ['9007199254740993', '-9223372036854775808', '18446744073709551615', '1.5', '-0.25'])
    test(digits, () => assert.match(storedOne(`"data":{"n":[${digits}]}`), new RegExp(`\\[${digits}\\]`)));
});

const anyEvent = fc.record({
  id: fc.stringMatching(/^[!#-[\]-~]{1,64}$/),
  type: fc.constantFrom(...EVENT_TYPES),
  url: anyUrl,
  timestamp: fc.maxSafeInteger(),
  // Whole numbers of more than 64 bits are refused.
  data: fc.jsonValue({ stringUnit: 'binary' }).filter((value) => !/\d{19}/.test(JSON.stringify(value))),
});

test('whatever is published comes out equal', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { minLength: 1, maxLength: 5 }), (events) => {
      const texts = stored(JSON.stringify(events));
      const expected = events.map(({ id, type, url, timestamp, data }) => {
        return { id, topic: 'widgets', type, url, t: timestamp, ...(data === null ? {} : { data }) };
      });
      assert.equal(`[${texts.join(',')}]`, JSON.stringify(expected));
    }),
    { numRuns: 500 },
  );
});

test('64-bit whole numbers anywhere in the data come out equal', () => {
  const number = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n });
  fc.assert(
    fc.property(fc.array(number), fc.dictionary(fc.string({ unit: 'binary' }), number), (list, map) => {
      const members = Object.entries(map).map(([key, value]) => `${JSON.stringify(key)}:${value}`);
      const data = `{"list":[${list}],"map":{${members}}}`;
      const [text = ''] = stored(`{"id":"x","type":"noop","url":"${url}","timestamp":1,"data":${data}}`);
      const sorted = (json: string) => JSON.stringify(JSON.parse(json, keepSource));
      assert.equal(
        sorted(text),
        sorted(`{"id":"x","topic":"widgets","type":"noop","url":"${url}","t":1,"data":${data}}`),
      );
    }),
  );
  function keepSource(_key: string, value: unknown, { source }: { source?: string } = {}): unknown {
    return typeof value === 'number' ? `${source}` : value;
  }
});

test('many small events may be longer than one event may be', () => {
  const limits = { ...LIMITS, maxEventDataBytes: 64 };
  const read = (text: string) =>
    readEvents({ text, isNdjson: false, topic: 'widgets', nowMs: NOW_MS, limits }).length;
  const small = `{"type":"noop","url":"${url}","data":"${'a'.repeat(62)}"}`;
  const huge = `{"type":"noop","url":"${url}","data":"${'a'.repeat(17_000)}"}`;
  assert.equal(read(` [${Array(150).fill(small)}] `), 150);
  const tooLong = {
    code: 'bad_event',
    members: { field: 'data', index: 1 },
    message: /more than 16768 characters/,
  };
  assert.throws(() => read(`[${small},${huge}]`), tooLong);
});

describe('data may be nested', () => {
  const nested = (levels: number, inner: string) => '['.repeat(levels) + inner + ']'.repeat(levels);

  test(`${MAX_DATA_DEPTH} levels deep, whatever is inside`, () => {
    for (const inner of ['', '1', '18446744073709551615', '"x"']) {
      const data = nested(MAX_DATA_DEPTH, inner);
      assert.ok(storedOne(`"data":${data}`).endsWith(`,"data":${data}}`));
      assert.throws(() => storedOne(`"data":[${data}]`), /nested deeper than 64 levels/);
    }
  });

  test('and a million levels are refused like 65', () => {
    assert.throws(() => storedOne(`"data":${nested(1_000_000, '')}`), /nested deeper than 64 levels/);
  });
});
