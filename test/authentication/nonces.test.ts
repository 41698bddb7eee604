import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Nonces } from '../../src/authentication/nonces.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
let nowMs: number;
const hourKeys = (letter: string, state = { replaced: false }) => {
  const of = (ms: number) => Buffer.from(`${letter}${Math.floor(ms / hourMs)}`);
  return {
    nowMs: () => nowMs,
    find: (issuedMs: number, signed: (key: Buffer) => boolean) =>
      signed(of(issuedMs)) ? { hour: Math.floor(issuedMs / hourMs), key: of(issuedMs), ...state } : undefined,
    current: () => of(nowMs),
    load: async () => {},
    refresh: async () => {},
  };
};
const counts = { consume: () => assert.fail('no count was used') };
const nonces = new Nonces(hourKeys('k'), counts);

beforeEach(() => {
  nowMs = Date.UTC(2026, 0, 1);
});

test('a nonce is fresh for five minutes, then old', () => {
  const nonce = nonces.issue();
  assert.equal(nonces.check(nonce), 'fresh');
  nowMs += 5 * minuteMs - 1;
  assert.equal(nonces.check(nonce), 'fresh');
  nowMs += 1;
  assert.equal(nonces.check(nonce), 'old');
});

test('a nonce of another hour is checked with the key of that hour', () => {
  const [nonce, other] = [nonces.issue(), nonces.issue()];
  nowMs += hourMs;
  assert.equal(nonces.check(nonce), 'old');
  const forgetful = new Nonces({ ...hourKeys('k'), find: () => undefined }, counts);
  assert.equal(forgetful.check(other), 'unknown');
});

test('a nonce slightly ahead of the clock of the process is fresh; one far ahead is not', () => {
  const nonce = nonces.issue();
  nowMs -= minuteMs - 1;
  assert.equal(nonces.check(nonce), 'fresh');
  nowMs -= minuteMs;
  assert.equal(nonces.check(nonce), 'old');
});

test('no two nonces are the same, even within a millisecond; their uses have different keys', async () => {
  const taken = new Set<string>();
  const issuing = new Nonces(hourKeys('k'), {
    consume: async ({ nonce }) => {
      taken.add(nonce);
      return 'consumed';
    },
  });
  const issued = Array.from({ length: 100 }, () => issuing.issue());
  for (const nonce of issued) await issuing.consume(nonce, '1', 'shop');
  assert.equal(new Set(issued).size, 100);
  assert.equal(taken.size, 100);
});

test('processes with the same keys accept the nonces of each other; others do not', () => {
  assert.equal(new Nonces(hourKeys('k'), counts).check(nonces.issue()), 'fresh');
  assert.equal(new Nonces(hourKeys('x'), counts).check(nonces.issue()), 'unknown');
});

test('a nonce whose key was replaced is old', () => {
  assert.equal(new Nonces(hourKeys('k', { replaced: true }), counts).check(nonces.issue()), 'old');
});

test('new keys are fetched before it is answered that the key of a nonce was replaced', async () => {
  let loaded = 0;
  const keys = { ...hourKeys('k'), load: async () => void loaded++ };
  const late = new Nonces(keys, { consume: async () => 'replaced' });
  assert.equal(await late.consume(nonces.issue(), '00000001', 'shop'), 'replaced');
  assert.equal(loaded, 1);
});

test('a nonce that was changed anywhere is unknown', () => {
  const nonce = nonces.issue();
  for (let index = 0; index < nonce.length; index += 1) {
    const changed = nonce.slice(0, index) + (nonce[index] === 'A' ? 'B' : 'A') + nonce.slice(index + 1);
    assert.equal(nonces.check(changed), 'unknown');
  }
});

test('a text that never was a nonce is unknown', () => {
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
