import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IdleWorkers } from '../../src/delivering/idle_workers.ts';

test('all threads see the thread with the most idle workers, the first of several', () => {
  const ofMain = IdleWorkers.ofThreads(3);
  const ofThread = new IdleWorkers(ofMain.counts);
  assert.equal(ofMain.mostIdleThread(), undefined);
  ofThread.set(1, 5);
  ofThread.set(2, 5);
  assert.equal(ofMain.mostIdleThread(), 1);
  ofMain.set(1, 4);
  assert.equal(ofThread.mostIdleThread(), 2);
  for (const thread of [1, 2]) ofMain.set(thread, 0);
  assert.equal(ofThread.mostIdleThread(), undefined);
});
