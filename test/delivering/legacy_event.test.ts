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

  test('has text where Ruby packed it as binary, or a number as a key', () => {
    const event = legacy({ t: 1, o: 'w', y: 'noop', u: Buffer.from('https://é/') });
    assert.equal(read(event).url, 'https://é/');
    const numbered = Buffer.from([0x92, 0xa1, 0x65, 0x81, 0xa1, 0x64, 0x81, 0x01, 0xc3]);
    assert.deepEqual(read(numbered).data, { 1: true });
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
