import { Clients } from '../authentication/client.ts';
import { ClientDirectory } from '../authentication/client_directory.ts';
import { NameKey } from '../authentication/name_key.ts';
import { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import { batchJob } from '../delivering/deliver_batch.ts';
import { autodrops } from '../delivering/queue.ts';
import { Delivery } from '../delivering/sending/delivery.ts';
import type { JobHandler } from '../delivering/settlement.ts';
import { JoinBatches } from '../flow/joins/join_batches.ts';
import type { Log } from '../log.ts';
import { Counters } from '../metrics/counters.ts';
import { Recorder } from '../metrics/recorder.ts';
import { StorageGuard } from '../publishing/storage_guard.ts';
import { Audit } from '../records/audit.ts';
import { connect } from '../store/connection.ts';
import { Partitions } from '../store/partitions.ts';
import { CallbackPolicy } from '../subscribing/callback_policy.ts';

/**
 * The objects with which a delivery thread, or a quarantine process (for batches that may have killed workers),
 * delivers batches. `takenOverAtMs` is when the bus took over from a Ruby Routemaster.
 */
export class DeliveryParts {
  readonly partitions: Partitions;
  readonly handler: JobHandler;
  readonly recorder: Recorder;
  readonly #redis: ReturnType<typeof connect>;
  readonly #counters: Counters;
  readonly #delivery: Delivery;

  constructor(config: Config, log: Log, takenOverAtMs: number | undefined) {
    this.#redis = connect(config.redisUrl, log, config.redisTls);
    // `log` is left out. Otherwise each thread would repeat a warning of the main thread: that Redis refuses to run
    // scripts as Redis functions.
    this.partitions = Partitions.on(this.#redis, {
      prefix: config.redisPrefix,
      partitions: config.partitions,
    });
    const { control } = this.partitions;
    this.#counters = new Counters(this.partitions, { flushIntervalMs: config.counterFlushIntervalMs, log });
    this.recorder = new Recorder(this.#counters);
    const keptConnections = Math.ceil(config.keptConnections / config.workerThreads);
    this.#delivery = new Delivery(
      { ...config, keptConnections },
      new CallbackPolicy(config.callbackAllow, config),
    );
    const publicNames = new PublicNames(
      new ClientDirectory(new Clients(control, config.clients)),
      new NameKey(control),
    );
    const { partitions, recorder } = this;
    const shared = { recorder, publicNames, log };
    const guard = new StorageGuard(partitions, config, autodrops(partitions, config));
    const audit = new Audit({ control, publicNames, config, log });
    this.handler = batchJob({
      ...shared,
      delivery: this.#delivery,
      partitions,
      joins: new JoinBatches({ ...shared, partitions, guard, settings: config }),
      settings: { ...config, takenOverAtMs },
      onPaused: (token) => audit.pausedByBus(token),
    });
  }

  start(begin: () => void): void {
    this.#counters.start();
    this.#redis.once('ready', begin);
  }

  /** Closes all connections. Call this after the workers have stopped. */
  async close(): Promise<void> {
    await this.#delivery.close();
    await this.#counters.stop();
    this.#redis.disconnect();
  }
}
