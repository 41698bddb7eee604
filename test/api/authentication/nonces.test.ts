import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Nonces } from '../../../src/api/authentication/nonces.ts';

const minuteMs = 60_000;
let nowMs = Date.UTC(2026, 0, 1);
const nonces = new Nonces('root key', () => nowMs);

test('a nonce is fresh for five minutes, and old after', () => {
  const nonce = nonces.issue();
  assert.equal(nonces.check(nonce), 'fresh');
  nowMs += 5 * minuteMs - 1;
  assert.equal(nonces.check(nonce), 'fresh');
  nowMs += 1;
  assert.equal(nonces.check(nonce), 'old');
});

test('one from a host whose clock is a little ahead is fresh; a far one is not', () => {
  const nonce = nonces.issue();
  nowMs -= 4 * minuteMs;
  assert.equal(nonces.check(nonce), 'fresh');
  nowMs -= 60 * minuteMs;
  assert.equal(nonces.check(nonce), 'old');
  nowMs += 64 * minuteMs;
});

test('no two are the same, even in one millisecond', () => {
  assert.equal(new Set(Array.from({ length: 100 }, () => nonces.issue())).size, 100);
});

test('processes with the same root key know the nonces of each other; others do not', () => {
  assert.equal(new Nonces('root key', () => nowMs).check(nonces.issue()), 'fresh');
  assert.equal(new Nonces('root kez', () => nowMs).check(nonces.issue()), 'unknown');
});

test('a nonce that was changed anywhere is unknown', () => {
  const nonce = nonces.issue();
  for (let index = 0; index < nonce.length; index += 1) {
    const changed = nonce.slice(0, index) + (nonce[index] === 'A' ? 'B' : 'A') + nonce.slice(index + 1);
    assert.equal(nonces.check(changed), 'unknown');
  }
});

test('what never was a nonce is unknown', () => {
  for (const text of [
    '',
    'A',
    'A'.repeat(40),
    '\u00e9'.repeat(40),
    `${nonces.issue()}A`,
    `${nonces.issue().slice(0, -1)}=`,
  ]) {
    assert.equal(nonces.check(text), 'unknown');
  }
});
