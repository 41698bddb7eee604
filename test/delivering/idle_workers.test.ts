import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IdleWorkers } from '../../src/delivering/idle_workers.ts';

test('all threads see the thread with the most idle workers, the first of several', () => {
  const ofMain = IdleWorkers.ofThreads(3, 1);
  const ofThread = new IdleWorkers(ofMain.counts, 1);
  assert.equal(ofMain.mostIdleThread(0), undefined);
  ofThread.set(1, 0, 5);
  ofThread.set(2, 0, 5);
  assert.equal(ofMain.mostIdleThread(0), 1);
  ofMain.set(1, 0, 4);
  assert.equal(ofThread.mostIdleThread(0), 2);
  for (const thread of [1, 2]) ofMain.clear(thread);
  assert.equal(ofThread.mostIdleThread(0), undefined);
});

test('each partition has its own idle workers; of the threads that have one, the idlest is woken', () => {
  const idle = IdleWorkers.ofThreads(2, 3);
  idle.set(0, 1, 4);
  idle.set(1, 1, 1);
  idle.set(1, 2, 4);
  assert.deepEqual(
    [0, 1, 2].map((partition) => idle.mostIdleThread(partition)),
    [undefined, 1, 1],
  );
  idle.clear(1);
  assert.deepEqual(
    [0, 1, 2].map((partition) => idle.mostIdleThread(partition)),
    [undefined, 0, undefined],
  );
});
