import { Clients } from '../authentication/client.ts';
import { NameKey } from '../authentication/name_key.ts';
import { PublicNames } from '../authentication/public_names.ts';
import { configIn, environmentWarnings, readConfig } from '../config.ts';
import { Quarantine } from '../delivering/quarantine.ts';
import { Supervisor } from '../delivering/supervisor.ts';
import { createLog } from '../log.ts';
import { Maintenance } from '../maintenance/maintenance.ts';
import { Counters } from '../metrics/counters.ts';
import { Recorder } from '../metrics/recorder.ts';
import { Outbox } from '../publishing/outbox.ts';
import { RELEASE } from '../release.ts';
import { OwnerLimit } from '../routing/owner_limit.ts';
import { Listener } from '../store/listener.ts';
import { Wakeups } from '../store/wakeups.ts';
import { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { TopicMarks } from '../subscribing/topic_marks.ts';
import { onStop, start } from './lifecycle.ts';
import { boot, confirmedPartitions, openPartitions, showUnlessMoved } from './process.ts';

/** Maximum time that a stopping process waits for deliveries under way. */
const STOP_GRACE_MS = 22_000;

const THREAD = new URL('./delivery_thread.ts', import.meta.url);
const QUARANTINE = new URL('./quarantine_process.ts', import.meta.url);

await start(async () => {
  const config = readConfig();
  // Makes the process end at once if the setting of permitted callbacks is invalid: then the constructor throws.
  // Without this line, each thread would fail later.
  new CallbackPolicy(config.callbackAllow, config);
  const log = createLog(config.logLevel, { process: 'worker', pid: process.pid });
  for (const warning of environmentWarnings()) log.warn(warning);
  const { redis, partitions } = openPartitions(config, log);
  const { control } = partitions;
  const counters = new Counters(partitions, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  let supervisor: Supervisor | undefined;
  let endPresence: (() => void) | undefined;
  const publicNames = new PublicNames(new Clients(control, config.clients), new NameKey(control));
  const confirming = config.partitions > 1 ? confirmedPartitions(config, log) : undefined;
  const confirmed = confirming?.partitions ?? partitions;
  const outbox = new Outbox({
    confirmed,
    recorder,
    marks: new TopicMarks(partitions),
    limits: config,
    log,
  });
  const quarantines: Quarantine[] = [];
  const oneAtATime = new OwnerLimit(1);
  const listener = new Listener(redis, log);
  const maintenance = partitions.all.map((partition) => {
    const quarantine = new Quarantine({
      file: QUARANTINE,
      config,
      partition,
      recorder,
      publicNames,
      oneAtATime,
      log,
    });
    quarantines.push(quarantine);
    const wakeups = new Wakeups(listener, partition.keys);
    wakeups.on('main', () => supervisor?.wake(partition.index));
    wakeups.on('suspect', () => quarantine.wake());
    const shared = { recorder, publicNames, outbox, oneAtATime, log };
    const parts = { partition, partitions, confirmed, wakeups, ...shared };
    return new Maintenance(config, parts);
  });
  // The handler of signals is set before the boot, so that the process can be stopped while the boot waits for Redis.
  const stopping = onStop(log, async () => {
    const delivering = [...quarantines, ...maintenance].map((each) => each.stop(STOP_GRACE_MS));
    await Promise.all([...delivering, supervisor?.stop(STOP_GRACE_MS)]);
    if (supervisor) recorder.processStopped('worker');
    await counters.stop();
    endPresence?.();
    redis.disconnect();
    confirming?.redis.disconnect();
  });
  const { compatibility, takenOver } = await boot(partitions, config, log);
  if (stopping.aborted) return;
  const inMode = configIn(compatibility, config);
  supervisor = new Supervisor(THREAD, inMode, log, takenOver);
  counters.start();
  recorder.processStarted('worker');
  endPresence = showUnlessMoved(listener, control, 'worker');
  supervisor.start();
  for (const each of maintenance) each.start();
  for (const each of quarantines) each.start(takenOver);
  const { workerThreads: threads, workersPerThread } = inMode;
  log.info({ release: RELEASE, threads, workersPerThread, compatibility }, 'delivering');
});
