import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { RUBY_EVENT, RUBY_EVENT_WITH_DATA } from '../../harness/ruby_redis.ts';
import { batchJson, eventJson } from '../../src/delivering/event_json.ts';
import { EVENT_TYPES, packData, packEvent } from '../../src/publishing/event.ts';
import { Packed } from '../../src/store/packed.ts';

const packed = (value: unknown) => Packed.of(Buffer.from(encode(value)));
const stored = (members: Record<string, unknown>) => packed(['e', members]);

describe('a subscriber reads', () => {
  test('topic, type, url and t', () => {
    const text = '{"topic":"widgets","type":"create","url":"https://a.example.com/w/1","t":1795166913608}';
    assert.equal(eventJson(Packed.of(RUBY_EVENT)), text);
  });

  test('data where there is some', () => {
    const { data } = JSON.parse(eventJson(Packed.of(RUBY_EVENT_WITH_DATA)));
    assert.deepEqual(data, { color: 'teal', n: 1, f: 1.5, z: null, b: true });
  });

  test('data that is false, 0 or empty as data', () => {
    for (const data of [false, 0, '', [], {}]) {
      const event = { topic: 'w', type: 'noop', url: 'https://x.example/', timestamp: 1 } as const;
      assert.deepEqual(JSON.parse(eventJson(packEvent(event, packData(data)))).data, data);
    }
  });

  test('members in this order, in whatever order they are stored; none that are unknown', () => {
    const event = stored({ d: 1, __proto__: 2, x: 3, u: 'u', t: 4, y: 'y', o: 'o' });
    assert.equal(eventJson(event), '{"topic":"o","type":"y","url":"u","t":4,"data":1}');
  });
});

test('a batch is a JSON array of its events', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue(), { maxLength: 5 }), (all) => {
      const event = { topic: 'w', type: 'update', url: 'https://x.example/', timestamp: 12 } as const;
      const expected = all.map((data) => {
        const base = { topic: event.topic, type: event.type, url: event.url, t: event.timestamp };
        return data === null ? base : { ...base, data };
      });
      const events = all.map((data) => packEvent(event, packData(data)));
      const joined = [new Packed(events.map(({ text }) => text).join(''))];
      for (const pieces of [events, joined]) {
        assert.equal(batchJson(pieces, all.length), JSON.stringify(expected));
        assert.throws(() => batchJson(pieces, all.length + 1), RangeError);
        if (all.length > 0) assert.throws(() => batchJson(pieces, all.length - 1), RangeError);
      }
    }),
  );
  assert.equal(batchJson([], 0), '[]');
  assert.throws(() => batchJson([new Packed('')], 1), RangeError);
});

describe('bytes that are no event throw RangeError', () => {
  const wrong = {
    nothing: new Packed(''),
    'a ping': packed(['p', {}]),
    'a map': packed({ e: 1 }),
    'one too many': packed(['e', {}, 1]),
    'a code that is no string': packed([1, {}]),
    'no members': packed(['e', []]),
    'cut bytes': Packed.of(RUBY_EVENT.subarray(0, -1)),
    'more than one': Packed.of(Buffer.concat([RUBY_EVENT, RUBY_EVENT])),
  };
  for (const [what, bytes] of Object.entries(wrong)) {
    test(what, () => assert.throws(() => eventJson(bytes), RangeError));
  }
});

const anyEvent = fc.record({
  topic: fc.stringMatching(/^[a-z0-9_]{1,64}$/),
  type: fc.constantFrom(...EVENT_TYPES),
  url: fc.oneof(fc.webUrl(), fc.string({ unit: 'grapheme', maxLength: 300 }), fc.string({ maxLength: 300 })),
  timestamp: fc.oneof(fc.maxSafeNat(), fc.integer({ min: 1.7e12, max: 1.9e12 })),
  data: fc.option(fc.jsonValue()),
});

test('whatever an event holds, its JSON says just that', () => {
  fc.assert(
    fc.property(anyEvent, ({ data, timestamp, ...rest }) => {
      const json = JSON.parse(eventJson(packEvent({ ...rest, timestamp }, packData(data))));
      const expected = { ...rest, t: timestamp, ...(data === null ? {} : { data }) };
      assert.deepEqual(json, JSON.parse(JSON.stringify(expected)));
    }),
    { numRuns: 500 },
  );
});

test('with any byte of it changed, it is JSON of something else, or refused', () => {
  fc.assert(
    fc.property(anyEvent, fc.nat(), fc.nat(255), ({ data, ...rest }, where, byte) => {
      const packed = packEvent(rest, packData(data)).toBuffer();
      packed[where % packed.length] = byte;
      let json: string;
      try {
        json = eventJson(Packed.of(packed));
      } catch (error) {
        assert.ok(error instanceof RangeError);
        return;
      }
      JSON.parse(json);
    }),
    { numRuns: 1000 },
  );
});
