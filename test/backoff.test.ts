import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backoff } from '../src/backoff.ts';

/** Returns the lengths of the pauses in ms, by mocked timers. */
async function pauses(t: import('node:test').TestContext, count: number): Promise<number[]> {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const backoff = new Backoff();
  const signal = new AbortController().signal;
  const found: number[] = [];
  for (let i = 0; i < count; i++) {
    let over = false;
    const wait = backoff.wait(signal).then(() => {
      over = true;
    });
    let ms = 0;
    while (!over) {
      ms++;
      t.mock.timers.tick(1);
      for (let i = 0; i < 10; i++) await undefined;
    }
    await wait;
    found.push(ms);
  }
  return found;
}

test('pauses double from 50 ms to 2 s, each shortened by up to half at random', async (t) => {
  const found = await pauses(t, 10);
  const full = [50, 100, 200, 400, 800, 1600, 2000, 2000, 2000, 2000];
  for (const [i, ms] of found.entries()) {
    const most = full[i] ?? 0;
    assert.ok(ms >= most / 2 && ms <= most + 2, `pause ${i}: ${ms} of ${most} ms`);
  }
});

test('a reset makes pauses short again, and returns true if there was a failure', async () => {
  const backoff = new Backoff();
  const over = AbortSignal.abort();
  assert.equal(backoff.reset(), false);
  for (let i = 0; i < 20; i++) await backoff.wait(over);
  assert.equal(backoff.reset(), true);
  assert.equal(backoff.reset(), false);
  const startMs = performance.now();
  await backoff.wait(new AbortController().signal);
  assert.ok(performance.now() - startMs < 2500);
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
