import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backoff } from '../src/backoff.ts';

/** Timers may fire up to a millisecond early, and late when the machine is busy. */
const EARLY_MS = 1;
const LATE_MS = 1000;

/** Waits once. Resolves with the time that this took (ms). */
async function waitOf(backoff: Backoff): Promise<number> {
  const startMs = performance.now();
  await backoff.wait(new AbortController().signal);
  return performance.now() - startMs;
}

function assertWithin(ms: number, fullMs: number): void {
  assert.ok(ms >= fullMs / 2 - EARLY_MS && ms <= fullMs + LATE_MS, `${ms} of ${fullMs} ms`);
}

test('the first pauses last 50, 100, 200 and 400 ms, each shortened by up to half at random', async () => {
  const backoff = new Backoff();
  for (const fullMs of [50, 100, 200, 400]) assertWithin(await waitOf(backoff), fullMs);
});

test('a pause never lasts longer than 2 s; a reset makes the next one short again', async () => {
  const backoff = new Backoff();
  for (let i = 0; i < 20; i++) await backoff.wait(AbortSignal.abort());
  assertWithin(await waitOf(backoff), 2000);
  backoff.reset();
  assertWithin(await waitOf(backoff), 50);
});

test('a pause ends when its signal is aborted', async () => {
  const backoff = new Backoff();
  const stop = new AbortController();
  for (let i = 0; i < 20; i++) await backoff.wait(AbortSignal.abort());
  const wait = backoff.wait(stop.signal);
  stop.abort();
  await wait;
  assert.ok(!process.getActiveResourcesInfo().includes('Timeout'));
});
