import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseJson, parseOwnJson } from '../src/json.ts';

const again = (text: string) => JSON.stringify(parseJson(text));

describe('numbers that a double cannot hold', () => {
  for (const text of [
    '[-9223372036854775808,18446744073709551615,9007199254740993]',
    '{"a":{"b":[12345678901234567]},"c":-12345678901234567}',
    '{"__proto__":12345678901234567,"a":{"__proto__":{"b":12345678901234567}}}',
    String.raw`{"12345678901234567":"12345678901234567","b":"\\\"12345678901234567","c":12345678901234567}`,
    '12345678901234567',
  ])
    test(`keep their digits: ${text}`, () => assert.equal(again(text), text));

  test('keep their digits only if they are whole', () => {
    const text = '[1234567890123456.7,12345678901234567e2,0.12345678901234567,1.5e-300,1e-12345678901234567]';
    assert.equal(again(text), '[1234567890123456.8,1234567890123456800,0.12345678901234566,1.5e-300,0]');
  });

  for (const number of [
    '1e999',
    '-1.5E+400',
    '18446744073709551616',
    '-9223372036854775809',
    '1'.repeat(400),
  ])
    test(`are refused if they need more than 64 bits: ${number.slice(0, 30)}`, () => {
      const detail = `the body has the number ${number.slice(0, 40)}, too large to be kept: send it as a string`;
      assert.throws(() => parseJson(`{"a":[${number}]}`), { code: 'bad_body', message: detail });
      assert.equal(typeof parseOwnJson(`[${number}]`), 'object');
    });

  for (const text of [
    '{12345678901234567:1}',
    '[012345678901234567]',
    '[12345678901234567',
    '[1234567890123456x]',
  ])
    test(`do not make JSON of what is none: ${text}`, () => {
      assert.throws(
        () => parseJson(text),
        (error: Error) => /^the body is not JSON: (?!.*[0-9a-f]{8}-)/.test(error.message),
      );
    });

  test('do not make parsing slow', () => {
    const text = `[12345678901234567${',1'.repeat(500_000)}]`;
    const before = process.threadCpuUsage();
    parseOwnJson(text);
    const ours = process.threadCpuUsage(before).user;
    const later = process.threadCpuUsage();
    JSON.parse(text, (_, value) => value);
    const withReviver = process.threadCpuUsage(later).user;
    assert.ok(ours < 0.6 * withReviver, `${ours} µs beside ${withReviver}`);
  });
});

describe('a text that is not JSON', () => {
  const message = (text: string) => {
    try {
      parseJson(text);
    } catch (error) {
      return (error as Error).message;
    }
    return 'parsed';
  };

  for (const text of ['{"a":1,}', '{"a":1 ,\n}', '[1,]', `["${'a'.repeat(100)}", ]`, '[[1,\n],2]'])
    test(`is refused with a hint at the comma too many: ${JSON.stringify(text)}`, () =>
      assert.match(message(text), /^the body is not JSON: .*; is there a comma too many\?$/s));

  for (const text of ['{"a":1,b:2}', '["a":]', '{a:",}"}', '[1,2'])
    test(`is refused without this hint: ${text}`, () =>
      assert.match(message(text), /^the body is not JSON: (?!.*comma)/));

  test('has its line named only if it has several', () => {
    assert.match(message('{"a":1,b:2}'), /at position 7$/);
    assert.match(message('{"a":1,\nb:2}'), /at position 8 \(line 2 column 1\)$/);
  });
});
