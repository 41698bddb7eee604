import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { RUBY_EVENT, RUBY_EVENT_WITH_DATA } from '../../harness/redis/ruby_redis.ts';
import { batchBody } from '../../src/delivering/batch.ts';
import { eventJson } from '../../src/delivering/legacy_event.ts';

const packed = (value: unknown) => Buffer.from(encode(value, { useBigInt64: true }));
const legacy = (members: Record<string, unknown>) => packed(['e', members]);
const read = (stored: Buffer) => JSON.parse(eventJson(stored).toString());
const dataOf = (bytes: number[]) => read(Buffer.from([0x92, 0xa1, 0x65, 0x81, 0xa1, 0x64, ...bytes])).data;

describe('a legacy event', () => {
  test('is delivered as today’s are, with an id made of its bytes', () => {
    const text =
      '{"id":"Sm-vP7v_ci4UICAV","topic":"widgets","type":"create","url":"https://a.example.com/w/1","t":1795166913608}';
    assert.equal(eventJson(RUBY_EVENT).toString(), text);
    assert.equal(eventJson(RUBY_EVENT).toString(), text, 'the same at every attempt');
  });

  test('has its data', () => {
    const { data } = read(RUBY_EVENT_WITH_DATA);
    assert.deepEqual(data, { color: 'teal', n: 1, f: 1.5, z: null, b: true });
  });

  test('keeps the digits of 64-bit numbers', () => {
    const event = legacy({ t: 1n, o: 'w', y: 'noop', u: 'u', d: [2n ** 64n - 1n, -(2n ** 63n), { n: 1n }] });
    const text = eventJson(event).toString();
    assert.ok(text.endsWith('"data":[18446744073709551615,-9223372036854775808,{"n":1}]}'), text);
  });

  test('has text where Ruby packed it as binary, and keys that are no text', () => {
    const event = legacy({ t: 1, o: 'w', y: 'noop', u: Buffer.from('https://é/') });
    assert.equal(read(event).url, 'https://é/');
    assert.deepEqual(dataOf([0x82, 0x01, 0xc3, 0xc4, 0x01, 0x6b, 0xc2]), { 1: true, k: false });
  });

  test('has a replacement character for bytes that are no UTF-8, and no other character changes', () => {
    assert.equal(dataOf([0xa3, 0xc3, 0x28, 0x61]), '\ufffd(a');
    assert.equal(dataOf([0xa2, 0x61, 0xe2]), 'a\ufffd', 'cut off at its end');
    assert.equal(dataOf([0xa3, 0xed, 0xa0, 0x80]), '\ufffd\ufffd\ufffd', 'a lone surrogate');
    assert.deepEqual(dataOf([0x81, 0xa1, 0xff, 0x01]), { '\ufffd': 1 });
  });

  test('has a member __proto__ if that was published', () => {
    const packed = Buffer.from([0x81, 0xa9, ...Buffer.from('__proto__'), 0x01]);
    assert.deepEqual(dataOf([...packed]), JSON.parse('{"__proto__":1}'));
  });

  test('says just what was published, whatever that is', () => {
    const anyData = fc.jsonValue().filter((value) => !JSON.stringify(value).includes('__proto__'));
    fc.assert(
      fc.property(anyData, fc.maxSafeInteger(), fc.string({ unit: 'binary' }), (d, t, u) => {
        const { id, ...event } = read(Buffer.from(encode(['e', { t, o: 'w', y: 'noop', u, d }])));
        assert.match(id, /^[\w-]{16}$/);
        const expected = { topic: 'w', type: 'noop', url: u, t, ...(d === null ? {} : { data: d }) };
        assert.equal(JSON.stringify(event), JSON.stringify(expected));
      }),
    );
  });

  test('has numbers of every length, and long texts and lists', () => {
    const numbers = [0, 127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, -1, -32, -33, -128, -129];
    const lower = [-32_768, -32_769, -(2 ** 31), -(2 ** 31) - 1, 1.5, 1e300];
    const texts = [31, 32, 255, 256, 65_535, 65_536].map((length) => 'é'.repeat(length));
    const long = Array.from({ length: 70_000 }, (_, index) => index);
    const members = Object.fromEntries(long.map((number) => [`k${number}`, number]));
    for (const d of [[...numbers, ...lower], texts, long, members]) {
      assert.deepEqual(read(Buffer.from(encode(['e', { d }]))).data, d);
    }
    assert.deepEqual(dataOf([0xca, 0x3f, 0xc0, 0, 0]), 1.5);
  });

  describe('throws RangeError if its bytes are no event', () => {
    const wrong = {
      nothing: Buffer.from(''),
      text: Buffer.from('garbled'),
      'a ping': packed(['p', {}]),
      'a map': packed({ e: 1 }),
      'one too many': packed(['e', {}, 1]),
      'a code that is no string': packed([1, {}]),
      'no members': packed(['e', []]),
      'something that JSON cannot hold': Buffer.from([0x92, 0xa1, 0x65, 0x81, 0xa1, 0x64, 0xd4, 5, 0]),
      'a map as a key': Buffer.from([0x92, 0xa1, 0x65, 0x81, 0xa1, 0x64, 0x81, 0x80, 1]),
      'a list as a key': Buffer.from([0x92, 0xa1, 0x65, 0x81, 0xa1, 0x64, 0x81, 0x90, 1]),
      'cut bytes': RUBY_EVENT.subarray(0, -1),
      'more than one': Buffer.concat([RUBY_EVENT, RUBY_EVENT]),
    };
    for (const [what, bytes] of Object.entries(wrong))
      test(what, () => assert.throws(() => eventJson(bytes), RangeError));
  });
});

describe('the body of a delivery', () => {
  const body = (...pieces: (string | Buffer)[]) =>
    batchBody(pieces.map((each) => Buffer.from(each))).toString();

  test('is a JSON array of the events of all pieces, legacy events among them', () => {
    assert.equal(body('{"a":"ü"},{"b":2}', '{"c":3}'), '[{"a":"ü"},{"b":2},{"c":3}]');
    const mixed = body(RUBY_EVENT, '{"a":1},{"b":2}', RUBY_EVENT_WITH_DATA, RUBY_EVENT);
    const expected = [read(RUBY_EVENT), { a: 1 }, { b: 2 }, read(RUBY_EVENT_WITH_DATA), read(RUBY_EVENT)];
    assert.deepEqual(JSON.parse(mixed), expected);
  });

  test('is an empty array where there are none', () => assert.equal(body(), '[]'));
});
