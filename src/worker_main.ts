import { readConfig, unknownVariables } from './config.ts';
import { Supervisor } from './delivering/supervisor.ts';
import { createLog } from './log.ts';
import { Maintenance } from './maintenance/maintenance.ts';
import { Counters } from './metrics/counters.ts';
import { Recorder } from './metrics/recorder.ts';
import { boot, onStop, start } from './process.ts';
import { connect, connectListener } from './store/connection.ts';
import { Partition } from './store/partition.ts';
import { Wakeups } from './store/wakeups.ts';
import { CallbackPolicy } from './subscribing/callback_policy.ts';

/** How long deliveries under way may take when the process is told to stop. */
const GRACE_MS = 22_000;

await start(async () => {
  const config = readConfig();
  // Fails here, once, if the policy is invalid, and not in thread after thread.
  new CallbackPolicy(config.callbackAllow, config);
  const log = createLog(config.logLevel, { process: 'worker', pid: process.pid });
  for (const warning of unknownVariables()) log.warn(warning);
  const store = new Partition(connect(config.redisUrl, log, config.redisTls), { log });
  const wakeups = new Wakeups(connectListener(config.redisUrl, log, config.redisTls), store.keys);
  const counters = new Counters(store, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const supervisor = new Supervisor(config, log);
  wakeups.on('main', () => supervisor.wake());
  const maintenance = new Maintenance(config, { store, wakeups, recorder, log });
  // Before the boot, which may wait for Redis.
  let delivering = false;
  const stopping = onStop(log, async () => {
    await Promise.all([maintenance.stop(GRACE_MS), supervisor.stop(GRACE_MS)]);
    wakeups.close();
    if (delivering) recorder.processStopped('worker');
    await counters.stop();
    store.redis.disconnect();
  });
  await boot(store, config.leaseMs, log);
  if (stopping.aborted) return;
  delivering = true;
  counters.start();
  recorder.processStarted('worker');
  supervisor.start();
  maintenance.start();
  log.info({ threads: config.workerThreads, workersPerThread: config.workersPerThread }, 'delivering');
});
