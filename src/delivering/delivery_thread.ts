import { parentPort, workerData } from 'node:worker_threads';
import { Clients } from '../authentication/client.ts';
import { ClientDirectory } from '../authentication/client_directory.ts';
import { NameKey } from '../authentication/name_key.ts';
import { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import { createLog } from '../log.ts';
import { Counters } from '../metrics/counters.ts';
import { Recorder } from '../metrics/recorder.ts';
import { connect } from '../store/connection.ts';
import { Partitions } from '../store/partitions.ts';
import { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { batchJob } from './deliver_batch.ts';
import { Delivery } from './delivery.ts';
import { IdleWorkers } from './idle_workers.ts';
import { ThreadWorkers } from './thread_workers.ts';

export interface ThreadData {
  config: Config;
  index: number;
  idleCounts: Int32Array;
  takenOverAtMs: number | undefined;
}

export type ThreadOrder = { kind: 'look' } | { kind: 'stop'; graceMs: number };

/** Runs one thread of the worker process. It delivers batches from `main` until a `stop` order. */
function runThread({ config, index, idleCounts, takenOverAtMs }: ThreadData): void {
  const log = createLog(config.logLevel, { process: 'worker', thread: index });
  const redis = connect(config.redisUrl, log, config.redisTls);
  // The partitions get no log, because the main thread already reports which commands Redis refuses.
  const partitions = Partitions.on(redis, { prefix: config.redisPrefix });
  const { control } = partitions;
  const counters = new Counters(control, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const keptConnections = Math.ceil(config.keptConnections / config.workerThreads);
  const delivery = new Delivery(
    { ...config, keptConnections },
    new CallbackPolicy(config.callbackAllow, config),
  );
  const publicNames = new PublicNames(
    new ClientDirectory(new Clients(control, config.clients)),
    new NameKey(control),
  );
  const idleWorkers = new IdleWorkers(idleCounts);
  const parts = {
    handler: batchJob({ delivery, recorder, publicNames, settings: { ...config, takenOverAtMs }, log }),
    recorder,
    log,
    onIdle: (idle: number) => idleWorkers.set(index, idle),
    wakeOthers: () => {
      if (idleWorkers.mostIdleThread() !== undefined) parentPort?.postMessage('wake');
    },
  };
  const workers = partitions.all.map((partition) => new ThreadWorkers(partition, parts, config));
  counters.start();
  redis.once('ready', () => {
    for (const each of workers) each.start();
  });

  const stop = async (graceMs: number) => {
    await Promise.all(workers.map((each) => each.stop(graceMs)));
    await delivery.close();
    await counters.stop();
    redis.disconnect();
    parentPort?.close();
  };
  parentPort?.on('message', (order: ThreadOrder) => {
    if (order.kind === 'stop') void stop(order.graceMs);
    else for (const each of workers) each.wake();
  });
}

runThread(workerData as ThreadData);
