import { readConfig } from './config.ts';
import { createLog } from './log.ts';
import { Counters } from './models/counters.ts';
import { connect, connectListener } from './redis/connection.ts';
import { Store } from './redis/store.ts';
import { Wakeups } from './redis/wakeups.ts';
import { Aux } from './runtime/aux.ts';
import { boot, onStop, start } from './runtime/process.ts';
import { Supervisor } from './runtime/supervisor.ts';
import { CallbackPolicy } from './services/callback_policy.ts';
import { Recorder } from './services/metrics/recorder.ts';

/** How long deliveries under way may take when the process is told to stop. */
const GRACE_MS = 22_000;

await start(async () => {
  const config = readConfig();
  // What is wrong with it is said here, once, and not by thread after thread.
  new CallbackPolicy(config.callbackAllow, config);
  const log = createLog(config.logLevel, { process: 'worker', pid: process.pid });
  const store = new Store(connect(config.redisUrl, log, config.redisTls), { log });
  const wakeups = new Wakeups(connectListener(config.redisUrl, log, config.redisTls), store.keys);
  const counters = new Counters(store, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const supervisor = new Supervisor(config, log);
  const aux = new Aux(config, { store, wakeups, recorder, log });
  // Before the boot, which may wait for Redis.
  let delivering = false;
  const stopping = onStop(log, async () => {
    await Promise.all([aux.stop(GRACE_MS), supervisor.stop(GRACE_MS)]);
    wakeups.close();
    if (delivering) recorder.processStopped('worker');
    await counters.stop();
    store.redis.disconnect();
  });
  await boot(store, log);
  if (stopping.aborted) return;
  delivering = true;
  counters.start();
  recorder.processStarted('worker');
  supervisor.start();
  aux.start();
  log.info({ threads: config.workerThreads, workersPerThread: config.workersPerThread }, 'delivering');
});
