import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BusError } from '../../src/errors.ts';
import { idempotency, maxClientKeys, readIdempotencyKey } from '../../src/publishing/idempotency.ts';

test('the digest depends on client and key, the fingerprint on topic and body', () => {
  const one = idempotency('shop', 'key', 'widgets', '{"type":"noop"}');
  assert.match(one.digest, /^[A-Za-z0-9_-]{22}$/);
  assert.equal(one.fingerprint.length, 16);
  assert.deepEqual(idempotency('shop', 'key', 'widgets', '{"type":"noop"}'), one);

  const others = [
    idempotency('shop', 'Key', 'widgets', ''),
    idempotency('shopk', 'ey', 'widgets', ''),
    idempotency('mill', 'key', 'widgets', ''),
  ];
  assert.equal(new Set([one, ...others].map(({ digest }) => digest)).size, 4);

  const [topic, body, parted] = [
    idempotency('shop', 'key', 'gadgets', '{"type":"noop"}'),
    idempotency('shop', 'key', 'widgets', '{"type": "noop"}'),
    idempotency('shop', 'key', 'widget', 's{"type":"noop"}'),
  ];
  const fingerprints = [one, topic, body, parted].map(({ fingerprint }) => fingerprint.toString('hex'));
  assert.equal(new Set(fingerprints).size, 4);
});

test('the keys of a client take 5 % of the memory of Redis at most', () => {
  assert.equal(maxClientKeys(100_000, 0), 100_000);
  assert.equal(maxClientKeys(100_000, 2 ** 40), 100_000);
  assert.equal(2 * 180 * maxClientKeys(100_000, 72_000_000), 0.05 * 72_000_000);
  assert.equal(maxClientKeys(100_000, 100), 1);
});

describe('Idempotency-Key', () => {
  const taken: [header: string | undefined, key: string | undefined][] = [
    [undefined, undefined],
    ['"8e03978e-40d5-43e8-bc93-6894a57f9324"', '8e03978e-40d5-43e8-bc93-6894a57f9324'],
    ['8e03978e-40d5-43e8-bc93-6894a57f9324', '8e03978e-40d5-43e8-bc93-6894a57f9324'],
    ['orders/17:v2+AZaz09=', 'orders/17:v2+AZaz09='],
    ['"a,b;c"', 'a,b;c'],
    ['"say \\"no\\""'.replace(' ', '_'), 'say_"no"'],
    ['"back\\\\slash"', 'back\\slash'],
    ['"!#$%&()*+-./:<=>?@[]^_`{|}~\'"', "!#$%&()*+-./:<=>?@[]^_`{|}~'"],
    ['x', 'x'],
    ['"x"', 'x'],
    ['x'.repeat(255), 'x'.repeat(255)],
    [`"${'\\"'.repeat(255)}"`, '"'.repeat(255)],
  ];
  for (const [header, key] of taken) {
    test(`${header?.slice(0, 50)} is taken`, () => assert.equal(readIdempotencyKey(header), key));
  }

  const refused = [
    '',
    '""',
    'x'.repeat(256),
    `"${'x'.repeat(256)}"`,
    'with space',
    '"with space"',
    '"unended',
    'unbegun"',
    'quote"within',
    '"quote"within"',
    '"escape\\x"',
    '"escape\\"',
    'bare\\slash',
    'a, b',
    'a,b',
    '"a", "b"',
    '"a";version=1',
    'a;version=1',
    '"\t"',
    '"caf\u00e9"',
    'caf\u00e9',
    '\x7f',
  ];
  for (const header of refused) {
    test(`${JSON.stringify(header.slice(0, 50))} is refused, with advice`, () => {
      assert.throws(
        () => readIdempotencyKey(header),
        (error) =>
          error instanceof BusError &&
          error.code === 'bad_header' &&
          /must be one string of 1 to 255 visible ASCII characters, such as "8e03978e-40d5"/.test(
            error.message,
          ),
      );
    });
  }
});
