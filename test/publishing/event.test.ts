import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decode, encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { RUBY_EVENT, RUBY_EVENT_WITH_DATA } from '../../harness/ruby_redis.ts';
import { DEEPEST_DATA, EVENT_TYPES, type Event, packData, packEvent } from '../../src/publishing/event.ts';

const pack = (event: Event) => packEvent(event, packData(event.data)).toBuffer();
const url = 'https://a.example.com/w/1';

const anyEvent: fc.Arbitrary<Event> = fc.record({
  topic: fc.stringMatching(/^[a-z0-9_]{1,64}$/),
  type: fc.constantFrom(...EVENT_TYPES),
  url: fc.oneof(fc.webUrl(), fc.string({ unit: 'grapheme', maxLength: 1024 })),
  timestamp: fc.oneof(fc.maxSafeInteger(), fc.integer({ min: -40_000, max: 5_000_000_000 })),
  // The library refuses to decode this key; msgpack_json.test.ts reads it with ours.
  data: fc.jsonValue().filter((value) => !JSON.stringify(value).includes('__proto__')),
});

describe('an event is packed byte for byte as Routemaster does', () => {
  test('without data', () => {
    const event: Event = { topic: 'widgets', type: 'create', url, timestamp: 1795166913608 };
    assert.equal(pack(event).toString('hex'), RUBY_EVENT.toString('hex'));
    assert.equal(pack({ ...event, data: null }).toString('hex'), RUBY_EVENT.toString('hex'));
  });

  test('with data', () => {
    const data = { color: 'teal', n: 1, f: 1.5, z: null, b: true };
    const event: Event = { topic: 'widgets', type: 'update', url, timestamp: 1795166913612, data };
    assert.equal(pack(event).toString('hex'), RUBY_EVENT_WITH_DATA.toString('hex'));
  });
});

describe('any event', () => {
  test('reads back as it was', () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        const { topic: o, type: y, url: u, timestamp: t, data } = event;
        const d = JSON.stringify(data ?? null);
        const [code, read] = decode(pack(event)) as [string, { d: unknown }];
        // -0 becomes 0, as it does in JSON.
        assert.deepEqual([code, { ...read, d: JSON.stringify(read.d) }], ['e', { t, o, y, u, d }]);
      }),
    );
  });

  test('is packed as the library packs it, wherever a length changes its form', () => {
    for (const bytes of [1, 31, 32, 255, 256, 1024]) {
      for (const timestamp of [0, 127, 128, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER, -1]) {
        const [topic, text] = ['w'.repeat(Math.min(bytes, 64)), 'é'.repeat(bytes)];
        const expected = encode(['e', { t: timestamp, o: topic, y: 'noop', u: text, d: null }]);
        const event: Event = { topic, type: 'noop', url: text, timestamp };
        assert.equal(pack(event).toString('hex'), Buffer.from(expected).toString('hex'));
      }
    }
  });

  test('keeps its bytes when others are packed after it', () => {
    const event: Event = { topic: 'widgets', type: 'create', url, timestamp: 1795166913608, data: [1, 2, 3] };
    const packed = pack(event);
    const data = packData('a').toBuffer();
    const before = [packed.toString('hex'), data.toString('hex')];
    for (let i = 0; i < 100; i++) pack({ ...event, data: 'x'.repeat(i * 100) });
    assert.deepEqual([packed.toString('hex'), data.toString('hex')], before);
  });
});

describe('data', () => {
  const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);

  test('may be nested, but not without end', () => {
    assert.deepEqual(decode(packData(nested(DEEPEST_DATA - 1)).toBuffer()), nested(DEEPEST_DATA - 1));
    assert.throws(() => packData(nested(DEEPEST_DATA + 1)), /deep/i);
    assert.deepEqual(decode(packData([1]).toBuffer()), [1], 'the next is packed as if nothing had happened');
  });

  test('is as long as it is packed', () => {
    assert.equal(packData(undefined).length, 1);
    assert.equal(packData('x'.repeat(62)).length, 64);
  });
});
