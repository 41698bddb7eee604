import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BusError } from '../../src/errors.ts';
import { readIdempotencyKey } from '../../src/publishing/idempotency_key.ts';

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
