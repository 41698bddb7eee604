import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { WebProcess } from '../../../harness/processes/web_process.ts';
import { readConfig } from '../../../src/config.ts';

const GOOD = [
  '0f'.repeat(24),
  'Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5',
  '8e03978e-40d5-43e8-bc93-6894a57f9324',
  'A-2oVgFXIZlV9O4kqU25YRCHJstIQF8o', // of Base64 for URLs, as bin/start makes them
];
const WEAK = [
  ['CHANGE-ME', /placeholder/],
  ['changeme-changeme-changeme', /placeholder/],
  ['please_change_me_to_32_characters', /placeholder/],
  ['your-root-key-of-32-characters', /placeholder/],
  ['secret-secret-secret-secret', /placeholder/],
  ['a-placeholder-for-the-root-key', /placeholder/],
  ['root-key-0123456789', /placeholder/],
  ['0f0f0f0f0f0f0f0', /fewer than 16 characters/],
] as const;

describe('in production a root key', () => {
  const production = (key: string) =>
    readConfig({ NODE_ENV: 'production', ROUTEMASTER_ROOT_KEY: key }).rootKeys;

  test('must be there, be no placeholder, and not be short; the message says what to change, without the key', () => {
    for (const [key, reason] of WEAK)
      assert.throws(
        () => production(key),
        (error: Error) => {
          assert.match(error.message, /ROUTEMASTER_ROOT_KEY/);
          assert.match(error.message, reason);
          assert.ok(!error.message.includes(key));
          return true;
        },
        key,
      );
    assert.throws(() => production(''), /ROUTEMASTER_ROOT_KEY must be set: the key that creates clients/);
  });

  test('that is long and random is taken', () => {
    for (const key of GOOD) assert.deepEqual(production(key), [key]);
  });

  test('that is weak keeps the process from starting', async (t) => {
    const web = WebProcess.during(t, { NODE_ENV: 'production', ROUTEMASTER_ROOT_KEY: 'short' });
    assert.equal(await web.exitCode, 78, web.output);
    assert.match(web.output, /ROUTEMASTER_ROOT_KEY .*openssl rand -hex 24/);
  });
});

test('elsewhere a short one will do, but not none', () => {
  assert.deepEqual(readConfig({ ROUTEMASTER_ROOT_KEY: 'dev' }).rootKeys, ['dev']);
  assert.throws(() => readConfig({}), /ROUTEMASTER_ROOT_KEY must be set/);
});
