import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { ReplyReader } from '../../src/delivering/reply_reader.ts';

const readerOf = (...values: unknown[]) =>
  new ReplyReader(Buffer.concat(values.map((value) => encode(value))));
const at = (hex: string) => new ReplyReader(Buffer.from(hex, 'hex'));

test('reads one value after the other', () => {
  const reader = readerOf('a', [1, 'é'], { b: 300 }, null, false, 'c', ['x', 1, 'y', 2]);
  assert.equal(reader.nothing(), false);
  assert.equal(reader.string(), 'a');
  assert.equal(reader.arrayLength(), 2);
  assert.deepEqual([reader.integer(), reader.string()], [1, 'é']);
  assert.equal(reader.mapLength(), 1);
  assert.deepEqual([reader.string(), reader.integer()], ['b', 300]);
  assert.deepEqual([reader.nothing(), reader.nothing(), reader.nothing()], [true, true, false]);
  assert.equal(reader.position, 15);
  assert.equal(reader.packed().text, 'c');
  const pairs = reader.list(2, () => [reader.string(), reader.integer()]);
  assert.deepEqual(pairs, [
    ['x', 1],
    ['y', 2],
  ]);
});

test('reads strings and whole numbers as they were written', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.maxSafeNat(), (text, number) => {
      const reader = readerOf(text, text, number);
      assert.equal(reader.string(), text);
      assert.deepEqual(reader.packed().toBuffer(), Buffer.from(text));
      assert.equal(reader.integer(), number);
    }),
  );
  for (const length of [0, 31, 32, 255, 256, 65_535, 65_536])
    assert.equal(readerOf('x'.repeat(length)).string().length, length);
});

test('throws RangeError where something else is there, or nothing more', () => {
  assert.throws(() => at('01').string(), /string is expected at byte 0/);
  assert.throws(() => at('01').mapLength(), /map is expected/);
  assert.throws(() => at('80').arrayLength(), /array is expected/);
  assert.throws(() => at('a0').integer(), /whole number is expected/);
  assert.throws(() => at('ff').integer(), /whole number is expected/);
  for (const [hex, read] of [
    ['', 'integer'],
    ['cd01', 'integer'],
    ['a261', 'packed'],
    ['db00000001', 'string'],
    ['dc00', 'arrayLength'],
  ] as const)
    assert.throws(() => at(hex)[read](), RangeError, hex);
});
