import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { retryAfterFailure } from '../../src/delivering/retry_policy.ts';

const MINUTE = 60_000;
const DAY = 24 * 3600 * 1000;
const SETTINGS = { maxBackoffMs: MINUTE, damageRate: 2 };
const retry = (healthPoints: number, attempts: number, retryAfterMs?: number, random = 0) =>
  retryAfterFailure({ healthPoints, attempts, retryAfterMs }, SETTINGS, random);

describe('a failed batch waits for', () => {
  test('one second, doubled with each attempt, up to MAX_BACKOFF_MS', () => {
    const delays = [1, 2, 3, 4, 5, 6, 7, 8, 1000].map((attempts) => retry(100, attempts).delayMs);
    assert.deepEqual(delays, [1000, 2000, 4000, 8000, 16_000, 32_000, MINUTE, MINUTE, MINUTE]);
  });

  test('up to half less than that, at random', () => {
    const delays = [0, 0.5, 0.75].map((random) => retry(100, 3, undefined, random).delayMs);
    assert.deepEqual(delays, [4000, 3000, 2500]);
  });

  test('the health back-off, which grows with the square of the missing health, if it is longer', () => {
    assert.equal(retry(52, 1).delayMs, 15_000);
    assert.equal(retry(2, 1).delayMs, MINUTE);
    assert.equal(retry(0, 1).delayMs, MINUTE);
  });

  test('Retry-After, up to a day, if it is longer', () => {
    assert.equal(retry(100, 1, 7_200_000).delayMs, 7_200_000);
    assert.equal(retry(100, 4, 10).delayMs, 8000);
    assert.equal(retry(100, 1, 100 * DAY).delayMs, DAY);
  });
});

describe('the subscriber’s other batches wait', () => {
  test('for the health back-off: 24 ms after a single failure, a minute without health', () => {
    assert.equal(retry(100, 1).throttleMs, 24);
    assert.equal(retry(52, 9).throttleMs, 15_000);
    assert.equal(retry(1, 1).throttleMs, MINUTE);
  });

  test('for Retry-After, if it is longer', () => {
    assert.equal(retry(100, 1, 5000).throttleMs, 5000);
    assert.equal(retry(0, 1, 5000).throttleMs, MINUTE);
  });
});

test('a failure costs the health points that the operator configured', () => {
  assert.equal(retry(100, 1).damage, 2);
  const harmless = { ...SETTINGS, damageRate: 0 };
  assert.equal(retryAfterFailure({ healthPoints: 1, attempts: 1 }, harmless).damage, 0);
});

test('every retry is within bounds, and not before the subscriber may be tried again', () => {
  const failures = fc.record({
    healthPoints: fc.integer({ min: 0, max: 100 }),
    attempts: fc.integer({ min: 1, max: 1_000_000 }),
    retryAfterMs: fc.option(fc.nat(), { nil: undefined }),
  });
  fc.assert(
    fc.property(failures, fc.integer({ min: 0, max: MINUTE }), (given, maxBackoffMs) => {
      const { delayMs, throttleMs } = retryAfterFailure(given, { ...SETTINGS, maxBackoffMs });
      assert.ok(delayMs >= 1 && delayMs >= throttleMs && throttleMs >= 0);
      assert.ok(delayMs <= Math.max(1, maxBackoffMs, Math.min(given.retryAfterMs ?? 0, DAY)));
    }),
  );
});
