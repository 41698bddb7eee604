import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Bell } from '../../src/delivering/bell.ts';

/** Whether the promise has settled when all that is ready to run has run. */
async function settled(promise: Promise<void>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  return done;
}

describe('a bell', () => {
  test('wakes who waits', async () => {
    const bell = new Bell();
    const wait = bell.wait();
    assert.equal(await settled(wait), false);
    bell.ring();
    await wait;
  });

  test('remembers a ring while nobody waits, once', async () => {
    const bell = new Bell();
    bell.ring();
    bell.ring();
    await bell.wait();
    const wait = bell.wait();
    assert.equal(await settled(wait), false);
    bell.ring();
    await wait;
  });

  test('remembers a ring that comes as the sleeper wakes', async () => {
    const bell = new Bell();
    const wait = bell.wait();
    bell.ring();
    await wait;
    bell.ring();
    await bell.wait();
  });

  test('wakes who waited long enough', async () => {
    const bell = new Bell();
    const startMs = performance.now();
    await bell.wait(20);
    assert.ok(performance.now() - startMs >= 19);
    const wait = bell.wait();
    assert.equal(await settled(wait), false);
    bell.ring();
    await wait;
  });

  test('leaves no timer behind when it rings before', async () => {
    const bell = new Bell();
    const wait = bell.wait(1_000_000);
    bell.ring();
    await wait;
    assert.ok(!process.getActiveResourcesInfo().includes('Timeout'));
  });
});
