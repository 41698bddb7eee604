import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readAnswer } from '../../src/authentication/digest_answer.ts';
import { plainAnswer } from '../../src/authentication/plain_answer.ts';

const PLAIN = {
  username: '"billing--1"',
  realm: '"Routemaster"',
  nonce: '"n0nce"',
  uri: '"/topics/widgets?a=1,2"',
  algorithm: 'SHA-256',
  qop: 'auth',
  nc: '0000000a',
  cnonce: '"c"',
  response: `"${'0a'.repeat(32)}"`,
};
const written = (parameters: [name: string, value: string][], between = ', ') =>
  parameters.map(([name, value]) => `${name}=${value}`).join(between);

test('reads what clients write, in any order, as any other way to write it is read', () => {
  const orders = fc.shuffledSubarray(Object.entries(PLAIN), { minLength: 9 });
  const between = fc.constantFrom(', ', ',', ',  ');
  fc.assert(
    fc.property(orders, between, fc.boolean(), (parameters, comma, quoted) => {
      const all = parameters.map(([name, value]): [string, string] => [
        name,
        quoted && !value.startsWith('"') ? `"${value}"` : value,
      ]);
      const text = written(all, comma);
      const answer = plainAnswer(text);
      assert.ok(answer, text);
      assert.deepEqual(answer, readAnswer(text));
    }),
  );
});

test('takes MD5 for what names no algorithm', () => {
  const text = written(Object.entries(PLAIN).filter(([name]) => name !== 'algorithm'));
  assert.equal(plainAnswer(text)?.algorithm, 'MD5');
  assert.deepEqual(plainAnswer(text), readAnswer(text));
});

test('leaves all else alone: nothing is read otherwise, and what is to be refused is refused', () => {
  const text = written(Object.entries(PLAIN));
  const odd = [
    ...['', ',', 'realm', '=', `${text}, realm="b"`, `${text} x`, `${text}, x=1`, text.slice(0, -1)],
    text.replace('billing', '\\billing'),
    text.replace('username', 'Username'),
    text.replace('username', 'username*'),
    text.replace('auth', 'auth-int'),
    text.replace('auth,', 'auth ,'),
    text.replace('0000000a', '0000000A'),
    text.replace('SHA-256', 'sha-256'),
    text.replace('realm="Routemaster"', 'realm=""'),
    text.replace('qop=auth, ', ''),
    text.replace('cnonce', 'realm'),
    text.replace('", nonce', '"; nonce'),
  ];
  for (const each of odd) assert.equal(plainAnswer(each), undefined, each);
});

test('with anything in it changed, it is read as any other way to write it is, or left alone', () => {
  const text = written(Object.entries(PLAIN));
  const character = fc.oneof(
    fc.constantFrom('"', ',', '=', ' ', '\\', '\t'),
    fc.string({ minLength: 1, maxLength: 1 }),
  );
  const change = fc.tuple(fc.nat(text.length), fc.constantFrom(0, 1), character);
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 3 }), (changes) => {
      let changed = text;
      for (const [at, removed, put] of changes)
        changed = changed.slice(0, at) + put + changed.slice(at + removed);
      const answer = plainAnswer(changed);
      if (answer) assert.deepEqual(answer, readAnswer(changed));
    }),
    { numRuns: 5000 },
  );
});
