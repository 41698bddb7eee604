import { parentPort, workerData } from 'node:worker_threads';
import { nowMicros } from '../stamp.ts';

export interface Beat {
  everyUs: number;
  beats: number;
}

/** Time until the first beat, in which the listener gets ready. */
const AHEAD_US = 20_000;

/**
 * Posts each beat to the parent thread at the time that it is due. It blocks a thread of its own, because timers of an
 * event loop fire up to a millisecond late: a third of the latency that is measured.
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
