import type { DeliveryOrder, QuarantineData } from '../delivering/delivery_order.ts';
import { Queue } from '../delivering/queue.ts';
import { tickMs, Workers } from '../delivering/workers.ts';
import { createLog, logged } from '../log.ts';
import { DeliveryParts } from './delivery_parts.ts';

/**
 * Runs a quarantine: a process that delivers suspects, one at a time. A suspect is a batch during whose delivery at
 * least two workers died, so it may have killed them. The process ends after a `stop` order, or after `idleMs` without
 * a suspect.
 */
function runQuarantine({ config, partition, takenOverAtMs, worker, idleMs }: QuarantineData): void {
  const log = createLog(config.logLevel, { process: 'worker', quarantine: partition });
  const parts = new DeliveryParts(config, log, takenOverAtMs);
  const store = parts.partitions.all[partition];
  if (!store) throw new Error(`there is no partition ${partition}`);
  let idle: NodeJS.Timeout | undefined;
  const { handler, recorder } = parts;
  const workers = new Workers(
    {
      handler,
      recorder,
      log,
      queue: new Queue(store, 'main', config, 'quarantine'),
      onIdle: (count) => {
        clearTimeout(idle);
        if (count > 0) idle = setTimeout(() => void stop(0), idleMs);
      },
    },
    { ids: [worker], tickMs: tickMs(config) },
  );
  const stop = async (graceMs: number) => {
    await workers.stop(graceMs);
    await parts.close();
    await logged();
    process.exit(0);
  };
  process.on('message', (order: DeliveryOrder) => {
    if (order.kind === 'stop') void stop(order.graceMs);
    else workers.wake();
  });
  parts.start(() => workers.start());
}

// A platform may send a signal to all processes. This process ignores the signal, because the worker process that
// started it sends a `stop` order.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
process.on('disconnect', () => process.exit());
process.once('message', (data) => runQuarantine(data as QuarantineData));
