import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decode, encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { MsgpackJson } from '../../src/delivering/msgpack_json.ts';
import { Packed } from '../../src/store/packed.ts';

const json = (bytes: Uint8Array) => new MsgpackJson(Packed.of(Buffer.from(bytes))).value();
const hex = (text: string) => json(Buffer.from(text, 'hex'));

describe('the JSON of packed values', () => {
  test('is what JSON.stringify makes of them', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary', maxDepth: 6 }), (value) => {
        const bytes = encode(value);
        const text = json(bytes);
        assert.equal(text, JSON.stringify(value));
        // The library refuses to decode this key; as JSON it is one like any other.
        if (!text.includes('__proto__')) assert.equal(text, JSON.stringify(decode(bytes)));
      }),
      { numRuns: 500 },
    );
  });

  test('of any length: all forms of strings, arrays and maps', () => {
    for (const length of [0, 15, 16, 31, 32, 255, 256, 65_535, 65_536]) {
      const values = ['x'.repeat(length), Array.from({ length }, (_, i) => i % 7)];
      const map = Object.fromEntries(Array.from({ length }, (_, i) => [`k${i}`, i]));
      for (const value of [...values, map]) assert.equal(json(encode(value)), JSON.stringify(value));
    }
  });

  test('keeps what JSON must escape', () => {
    const text = '"\\\u0000\u001f\u2028\u{1f600}é';
    assert.equal(json(encode({ [text]: text })), JSON.stringify({ [text]: text }));
  });

  test('has null for numbers that JSON has not', () => {
    for (const number of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      assert.equal(json(encode([number])), '[null]');
    }
  });
});

describe('numbers', () => {
  test('keep every digit of 64 bits', () => {
    assert.equal(hex('cfffffffffffffffff'), '18446744073709551615');
    assert.equal(hex('cf0020000000000001'), '9007199254740993');
    assert.equal(hex('d38000000000000000'), '-9223372036854775808');
    assert.equal(hex('d3ffdfffffffffffff'), '-9007199254740993');
  });

  test('are read in all their forms', () => {
    const forms = { '7f': 127, ff: -1, e0: -32, cc80: 128, cdffff: 65_535, ceffffffff: 4_294_967_295 };
    const signed = {
      d080: -128,
      d18000: -32_768,
      d280000000: -2_147_483_648,
      ca3fc00000: 1.5,
      cb7ff0000000000000: null,
    };
    for (const [bytes, value] of Object.entries({ ...forms, ...signed }))
      assert.equal(hex(bytes), String(value));
  });
});

describe('keys', () => {
  test('are keys, whatever they are called', () => {
    const bytes = Buffer.from('82a95f5f70726f746f5f5f81a16101ab636f6e7374727563746f72c0', 'hex');
    assert.equal(json(bytes), '{"__proto__":{"a":1},"constructor":null}');
  });

  test('that are no strings are written as such, as Ruby would have it', () => {
    assert.equal(hex('8401c2c0c3cb3ff80000000000000190a161'), '{"1":false,"null":true,"1.5":1,"[]":"a"}');
  });

  test('that come twice are both written', () => {
    assert.equal(hex('82a16101a16102'), '{"a":1,"a":2}');
  });
});

describe('bytes that are no MessagePack', () => {
  const value = {
    text: 'é'.repeat(20),
    long: 'x'.repeat(300),
    list: [1, -1, 200, 70_000, 2 ** 40, -(2 ** 40), 1.5, true, null],
    map: { a: { b: [] } },
  };

  test('cut anywhere throw RangeError', () => {
    const bytes = encode(value);
    for (let end = 0; end < bytes.length; end++)
      assert.throws(() => json(bytes.subarray(0, end)), RangeError, `${end}`);
  });

  test('that promise more than they have throw at once', () => {
    for (const bytes of ['dbffffffff', 'ddffffffff', 'dfffffffff01', 'c6ffffffff'])
      assert.throws(() => hex(bytes), RangeError);
  });

  test('of kinds that JSON cannot hold throw', () => {
    for (const code of ['c1', 'c70000', 'd4ff00', 'd6ff00000000']) assert.throws(() => hex(code), RangeError);
  });

  test('whatever they are, either throw RangeError or give JSON', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), (bytes) => {
        try {
          JSON.parse(json(bytes));
        } catch (error) {
          assert.ok(error instanceof RangeError);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
