import { parentPort, workerData } from 'node:worker_threads';
import type { DeliveryOrder, ThreadData } from './delivering/delivery_order.ts';
import { IdleWorkers } from './delivering/idle_workers.ts';
import { ThreadWorkers } from './delivering/thread_workers.ts';
import { DeliveryParts } from './delivery_parts.ts';
import { createLog } from './log.ts';

/** Runs one thread of the worker process. It delivers batches from `main` until a `stop` order. */
function runThread({ config, index, idleCounts, takenOverAtMs }: ThreadData): void {
  const log = createLog(config.logLevel, { process: 'worker', thread: index });
  const parts = new DeliveryParts(config, log, takenOverAtMs);
  const idleWorkers = new IdleWorkers(idleCounts);
  const { handler, recorder } = parts;
  const ofWorkers = {
    ...{ handler, recorder, log },
    onIdle: (idle: number) => idleWorkers.set(index, idle),
    wakeOthers: () => {
      if (idleWorkers.mostIdleThread() !== undefined) parentPort?.postMessage('wake');
    },
  };
  const workers = parts.partitions.all.map((partition) => new ThreadWorkers(partition, ofWorkers, config));
  parts.start(() => {
    for (const each of workers) each.start();
  });

  const stop = async (graceMs: number) => {
    await Promise.all(workers.map((each) => each.stop(graceMs)));
    await parts.close();
    parentPort?.close();
  };
  parentPort?.on('message', (order: DeliveryOrder) => {
    if (order.kind === 'stop') void stop(order.graceMs);
    else for (const each of workers) each.wake();
  });
}

runThread(workerData as ThreadData);
