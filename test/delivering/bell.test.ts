import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Bell } from '../../src/delivering/bell.ts';

/** Returns true if the promise has resolved by the next turn of the event loop. */
async function settled(promise: Promise<void>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  return done;
}

describe('a bell', () => {
  test('wakes the loop that waits', async () => {
    const bell = new Bell();
    const wait = bell.wait();
    assert.equal(await settled(wait), false);
    bell.ring();
    await wait;
  });

  test('remembers one ring while no loop waits', async () => {
    const bell = new Bell();
    bell.ring();
    bell.ring();
    await bell.wait();
    const wait = bell.wait();
    assert.equal(await settled(wait), false);
    bell.ring();
    await wait;
  });

  test('remembers a ring that comes while the loop wakes', async () => {
    const bell = new Bell();
    const wait = bell.wait();
    bell.ring();
    await wait;
    bell.ring();
    await bell.wait();
  });

  test('wakes the loop after the timeout', async () => {
    const bell = new Bell();
    const startMs = performance.now();
    await bell.wait(20);
    assert.ok(performance.now() - startMs >= 19);
    const wait = bell.wait();
    assert.equal(await settled(wait), false);
    bell.ring();
    await wait;
  });

  test('leaves no timer behind when it rings before the timeout', async () => {
    const bell = new Bell();
    const wait = bell.wait(1_000_000);
    bell.ring();
    await wait;
    assert.ok(!process.getActiveResourcesInfo().includes('Timeout'));
  });
});
