import { parentPort, workerData } from 'node:worker_threads';
import { nowMicros } from '../stamp.ts';

export interface Beat {
  everyUs: number;
  beats: number;
}

/** Time for whoever listens to get ready. */
const AHEAD_US = 20_000;

/**
 * Tells the thread that started it when each beat is due, at that time. A thread of its own, because timers of an event
 * loop come up to a millisecond late, which is a third of what is measured with it.
 */
const { everyUs, beats } = workerData as Beat;
const nothing = new Int32Array(new SharedArrayBuffer(4));
const startUs = nowMicros() + AHEAD_US;
for (let beat = 0; beat < beats; beat++) {
  const dueUs = Math.round(startUs + beat * everyUs);
  const leftUs = dueUs - nowMicros();
  if (leftUs > 0) Atomics.wait(nothing, 0, 0, leftUs / 1000);
  parentPort?.postMessage(dueUs);
}
