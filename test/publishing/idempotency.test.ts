import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idempotency, maxClientKeys } from '../../src/publishing/idempotency.ts';

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
