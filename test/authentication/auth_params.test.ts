import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { readParameters } from '../../src/authentication/auth_params.ts';
import { BusError } from '../../src/errors.ts';

const read = (text: string) => Object.fromEntries(readParameters(text));
const refused = (text: string, message: RegExp) =>
  assert.throws(
    () => readParameters(text),
    (error: unknown) => {
      assert.ok(error instanceof BusError);
      assert.equal(error.code, 'bad_header');
      assert.match(error.message, message);
      return true;
    },
  );

describe('the parameters of an Authorization header', () => {
  test('are tokens or quoted strings, with space and empty elements between them', () => {
    assert.deepEqual(read('a=1,b="2"'), { a: '1', b: '2' });
    assert.deepEqual(read('  ,, a = 1 ,\t, b= "2" , '), { a: '1', b: '2' });
    assert.deepEqual(read(''), {});
  });

  test('have names in any case', () => {
    assert.deepEqual(read('UserName="x", NC=00000001'), { username: 'x', nc: '00000001' });
  });

  test('may hold commas, equals signs and escapes in quotes', () => {
    assert.deepEqual(read(String.raw`a="1, b=2", c="say \"hi\"", d="back\\slash", e=""`), {
      a: '1, b=2',
      c: 'say "hi"',
      d: 'back\\slash',
      e: '',
    });
  });

  test('are refused when one appears twice, in any case', () => {
    refused('realm="a", REALM="b"', /parameter realm twice/);
  });

  test('are refused when they cannot be read', () => {
    for (const text of [
      'a',
      'a=',
      'a="1',
      'a="1\\"',
      '=1',
      'a=1 b=2',
      'a="1"b="2"',
      'a=1;b=2',
      'a=\u00e9',
      '"a"=1',
    ]) {
      refused(text, /cannot be read after/);
    }
    refused('a=1, b', /after 5 characters/);
  });

  test('are refused when there are more than 32', () => {
    const many = (count: number) => Array.from({ length: count }, (_, index) => `p${index}=1`).join(',');
    assert.equal(readParameters(many(32)).size, 32);
    refused(many(33), /more than 32/);
  });

  test('are read as they were written, for any content', () => {
    const name = fc.stringMatching(/^[a-z0-9_*]{1,8}$/);
    const value = fc.string({
      unit: fc.integer({ min: 32, max: 255 }).map((code) => String.fromCharCode(code)),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(name, value), { selector: ([key]) => key, maxLength: 32 }),
        (pairs) => {
          const written = pairs.map(([key, text]) => `${key}="${text.replace(/["\\]/g, '\\$&')}"`).join(', ');
          assert.deepEqual([...readParameters(written)], pairs);
        },
      ),
    );
  });

  // A reader of quadratic cost would need hours for each of these texts. Node lets 16 KB of headers through.
  test('take time in proportion to their length, for any content', () => {
    const long = 256 * 1024;
    const hostile = [
      ','.repeat(long),
      `${' '.repeat(long)}x`,
      `a="${'\\"'.repeat(long / 2)}`,
      `a="${'"'.repeat(long)}`,
      `a=${'b'.repeat(long)} c`,
      'a'.repeat(long),
      `a="1"${' \t'.repeat(long / 2)}x`,
      `a${' '.repeat(long)}x`,
      `a=${' '.repeat(long)}`,
      `a=1,${', '.repeat(long / 2)}"`,
    ];
    const startedAt = performance.now();
    for (const text of hostile) {
      try {
        readParameters(text);
      } catch (error) {
        assert.ok(error instanceof BusError, String(error));
      }
    }
    assert.ok(performance.now() - startedAt < 5000);
  });
});
