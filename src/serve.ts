import { buildApi } from './api.ts';
import { sleep } from './clock.ts';
import type { Config } from './config.ts';
import { createApp } from './http/app.ts';
import { HttpServer } from './http/server.ts';
import type { Log } from './log.ts';
import { Counters } from './metrics/counters.ts';
import { Recorder } from './metrics/recorder.ts';
import { boot, onStop } from './process.ts';
import { connect } from './store/connection.ts';
import { Store } from './store/store.ts';

/** How long requests under way may take when the process is told to stop. */
const GRACE_MS = 20_000;

/** How long a boot takes that has a Redis: no request is refused meanwhile. */
const BOOT_MS = 1000;

/** One web process: listens when Redis is prepared, or without it after a second; drains at SIGTERM. */
export async function serve(config: Config, log: Log): Promise<void> {
  const store = new Store(connect(config.redisUrl, log, config.redisTls), { log });
  const counters = new Counters(store, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  let isReady = false;
  const { routes, ...parts } = buildApi({ config, store, recorder, log });
  const app = createApp(routes, { ...parts, forceSsl: config.forceSsl, ready: () => isReady, log });
  const server = new HttpServer(app, config);
  onStop(log, async () => {
    await server.close(GRACE_MS);
    if (isReady) recorder.processStopped('web');
    await counters.stop();
    store.redis.disconnect();
  });
  const booting = boot(store, config.leaseMs, log).then(() => {
    isReady = true;
    counters.start();
    recorder.processStarted('web');
  });
  // While Redis is away the process listens all the same, and answers that the storage is unavailable.
  await Promise.race([booting, sleep(BOOT_MS)]);
  log.info({ port: await server.listen(config.port) }, 'listening');
  await booting;
}
