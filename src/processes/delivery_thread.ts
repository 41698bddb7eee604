import { parentPort, workerData } from 'node:worker_threads';
import type { DeliveryOrder, ThreadData } from '../delivering/delivery_order.ts';
import { IdleWorkers } from '../delivering/idle_workers.ts';
import { ThreadWorkers, workersOfPartition } from '../delivering/thread_workers.ts';
import { createLog } from '../log.ts';
import { DeliveryParts } from './delivery_parts.ts';

function runThread({ config, index, idleCounts, takenOverAtMs }: ThreadData): void {
  const log = createLog(config.logLevel, { process: 'worker', thread: index });
  const parts = new DeliveryParts(config, log, takenOverAtMs);
  const { handler, recorder, partitions } = parts;
  const idleWorkers = new IdleWorkers(idleCounts, partitions.all.length);
  const settings = { ...config, workers: workersOfPartition(config, partitions) };
  const workers = partitions.all.map((partition) => {
    const place = partition.index;
    const ofWorkers = {
      handler,
      recorder,
      log,
      onIdle: (idle: number) => idleWorkers.set(index, place, idle),
      wakeOthers: () => {
        if (idleWorkers.mostIdleThread(place) !== undefined) parentPort?.postMessage(place);
      },
    };
    return new ThreadWorkers(partition, ofWorkers, settings);
  });
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
    else workers[order.partition]?.wake();
  });
}

runThread(workerData as ThreadData);
