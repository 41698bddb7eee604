import { parentPort, workerData } from 'node:worker_threads';
import { Clients } from '../authentication/client.ts';
import { ClientDirectory } from '../authentication/client_directory.ts';
import { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import { createLog } from '../log.ts';
import { Counters } from '../metrics/counters.ts';
import { Recorder } from '../metrics/recorder.ts';
import { connect, connectListener } from '../store/connection.ts';
import { Store } from '../store/store.ts';
import { Wakeups } from '../store/wakeups.ts';
import { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { batchJob } from './deliver_batch.ts';
import { Delivery } from './delivery.ts';
import { Queue } from './queue.ts';
import { RetryPolicy } from './retry_policy.ts';
import { tickMs, Workers } from './workers.ts';

/** What the supervisor hands to a thread. */
export interface ThreadData {
  config: Config;
  index: number;
}

/** What the supervisor says to a thread. */
export interface StopMessage {
  graceMs: number;
}

/** One thread of the worker process: delivers batches from `main` until it is told to stop. */
function runThread({ config, index }: ThreadData): void {
  const log = createLog(config.logLevel, { process: 'worker', thread: index });
  // Without the log: what Redis refuses is said once, by the store of the process.
  const store = new Store(connect(config.redisUrl, log, config.redisTls));
  const wakeups = new Wakeups(connectListener(config.redisUrl, log, config.redisTls), store.keys);
  const counters = new Counters(store, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const delivery = new Delivery(config, new CallbackPolicy(config.callbackAllow, config));
  const retryPolicy = new RetryPolicy(config);
  const publicNames = new PublicNames(new ClientDirectory(new Clients(store, config.clients)));
  const workers = new Workers(
    {
      queue: new Queue(store, 'main', config),
      wakeups,
      handler: batchJob({ delivery, retryPolicy, recorder, publicNames, settings: config, log }),
      figures: recorder,
      log,
    },
    { count: config.workersPerThread, tickMs: tickMs(config) },
  );
  counters.start();
  store.redis.once('ready', () => workers.start());

  parentPort?.once('message', async ({ graceMs }: StopMessage) => {
    await workers.stop(graceMs);
    wakeups.close();
    await delivery.close();
    await counters.stop();
    store.redis.disconnect();
    parentPort?.close();
  });
}

runThread(workerData as ThreadData);
