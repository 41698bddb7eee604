import { refuseShortTokens, warnOfPublicTokens, warnOfShortTokens } from '../authentication/weak_tokens.ts';
import { sleep } from '../clock.ts';
import type { Config } from '../config.ts';
import { createApp } from '../http/app.ts';
import { HttpServer } from '../http/server.ts';
import type { Log } from '../log.ts';
import { StorageWatch } from '../maintenance/storage_watch.ts';
import { Counters } from '../metrics/counters.ts';
import { Recorder } from '../metrics/recorder.ts';
import { RELEASE } from '../release.ts';
import { type Compatibility, DIALECTS } from '../routing/dialect.ts';
import { Listener } from '../store/listener.ts';
import { buildApi } from './api.ts';
import { onStop } from './lifecycle.ts';
import { boot, confirmedPartitions, openPartitions, showUnlessMoved } from './process.ts';

/** Maximum time that a stopping process waits for requests under way. */
const STOP_GRACE_MS = 20_000;

/** Maximum time to wait for Redis before listening. If Redis is available, preparing it takes less. */
const BOOT_MS = 1000;

const COMPATIBILITY_NOTE = {
  none: 'answering as docs/api.md says',
  routemaster: 'answering as the Ruby Routemaster did; ROUTEMASTER_COMPATIBILITY=none ends that',
};

/**
 * Runs a web process. It listens as soon as Redis is prepared. Without Redis, it listens after a second, and answers
 * that Redis is away. At SIGTERM it finishes its requests and stops.
 */
export async function serve(config: Config, log: Log): Promise<void> {
  const { redis, partitions } = openPartitions(config, log);
  const confirmed = confirmedPartitions(config, log);
  const counters = new Counters(partitions, { flushIntervalMs: config.counterFlushIntervalMs, log });
  const recorder = new Recorder(counters);
  const storageWatch = new StorageWatch([...partitions.all, ...(confirmed?.partitions.all ?? [])], log);
  let isReady = false;
  let endPresence: (() => void) | undefined;
  const { routesIn, pages, ...parts } = buildApi({
    config,
    partitions,
    recorder,
    counters,
    log,
    confirmed: confirmed?.partitions,
  });
  const appIn = (compatibility: Compatibility) => {
    const dialect = DIALECTS[compatibility];
    const { forceSsl } = config;
    return createApp([...routesIn(dialect), ...pages], {
      ...parts,
      dialect,
      forceSsl,
      ready: () => isReady,
      storageWatch,
      log,
      recorder,
    });
  };
  const assumed = config.compatibility ?? 'none';
  let app = appIn(assumed);
  const server = new HttpServer((request, response) => app(request, response), config, parts.budget);
  onStop(log, async () => {
    await server.close(STOP_GRACE_MS);
    // A process that is not ready must write nothing: Redis may lack the data that ROUTEMASTER_REQUIRE_DATA demands.
    // Little is lost: so far, the counters count only calls that this process has refused.
    if (isReady) {
      recorder.processStopped('web');
      await counters.stop();
    }
    endPresence?.();
    redis.disconnect();
    confirmed?.redis.disconnect();
  });
  const booting = boot(partitions, config, log).then(({ compatibility }) => {
    if (compatibility === 'none') refuseShortTokens(config);
    // After a takeover from a Ruby Routemaster, the bus answers as the Ruby Routemaster did, unless a setting decides
    // otherwise. The process learns only now, from Redis, whether there was a takeover. It can still change its
    // answers: until now it has answered only health checks, and has refused all other calls or redirected them to
    // https.
    if (compatibility !== assumed) app = appIn(compatibility);
    log.info({ compatibility }, COMPATIBILITY_NOTE[compatibility]);
    isReady = true;
    counters.start();
    recorder.processStarted('web');
    const listener = new Listener(redis, log);
    endPresence = showUnlessMoved(listener, partitions.control, 'web');
    // If Redis fails here, this process does not warn.
    for (const warn of [warnOfShortTokens, warnOfPublicTokens])
      void warn(config, partitions.control, log).catch(() => {});
  });
  await Promise.race([booting, sleep(BOOT_MS)]);
  const port = await server.listen(config.port, config.host);
  log.info({ release: RELEASE, port }, 'listening');
  await booting;
}
