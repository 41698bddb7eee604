import { secretSetting, setting } from './setting.ts';
import { certificates, list, MAX_TIMER_MS, proxy, seconds, whole, yesNo } from './values.ts';

export const workers = {
  workerThreads: setting('ROUTEMASTER_WORKER_THREADS', whole(1, 1000), '2').help(
    'Threads of a worker process, about one a core. In compatibility mode, without the next one: deliveries under way.',
  ),
  workersPerThread: setting('ROUTEMASTER_WORKERS_PER_THREAD', whole(1, 1000), '32').help(
    'Maximum deliveries under way in each thread; a third more while all of them hang. At least 4 for each partition.',
  ),
  laneLimit: setting('ROUTEMASTER_LANE_LIMIT', whole(1, 1000), '16').help(
    'Maximum deliveries under way to a subscriber that asks for no number of its own, over all processes.',
  ),
  laneLimitMax: setting('ROUTEMASTER_LANE_LIMIT_MAX', whole(1, 1000), '64').help(
    'Maximum that a subscriber may ask for (`max_in_flight`). It gets a quarter of all workers at most.',
  ),
  leaseMs: setting('ROUTEMASTER_WORKER_LEASE', seconds(1, 3600), '30').help(
    'Seconds after which a worker that sends no heartbeat loses its delivery to another worker.',
  ),
  acquireTimeoutMs: setting('ROUTEMASTER_ACQUIRE_TIMEOUT', seconds(0.1, 3600), '10').help(
    'Maximum seconds between two questions of an idle worker for jobs; twice that with several partitions.',
  ),
  sweepIntervalMs: setting('ROUTEMASTER_SWEEP_INTERVAL', seconds(1, 86_400), '300').help(
    'Seconds between sweeps, which repair inconsistencies, such as a batch without a job. They should find none.',
  ),
};

export const deliveries = {
  deliveryTimeoutMs: setting('ROUTEMASTER_TIMEOUT', seconds(0.1, 3600), '20').help(
    'Seconds that a whole delivery may take.',
  ),
  maxAttempts: setting('ROUTEMASTER_MAX_ATTEMPTS', whole(1, 1_000_000), '1500').help(
    'Failed attempts after which a batch becomes a dead letter; a subscription may set its own `max_attempts`.',
  ),
  maxAgeMs: setting('ROUTEMASTER_MAX_AGE', seconds(1, 31_536_000), '86400').help(
    'Seconds after which a batch becomes a dead letter; a subscription may set its own `max_age`.',
  ),
  maxBackoffMs: setting('MAX_BACKOFF_MS', whole(0, MAX_TIMER_MS), '60000').help(
    'Maximum back-off after a failed delivery, in milliseconds. A `Retry-After` may be longer.',
  ),
  healRate: setting('ROUTEMASTER_HP_HEAL_RATE', whole(0, 100), '1').help(
    'Health points that a subscriber gains by an accepted batch.',
  ),
  /** The variable is negative, as in the Ruby Routemaster. `damageRate` is positive. */
  damageRate: setting('ROUTEMASTER_HP_DAMAGE_RATE', whole(-100, 0).transform(Math.abs), '-2').help(
    'Health points that a subscriber loses by a failure, as a negative number.',
  ),
};

export const callbacks = {
  callbackAllow: setting('ROUTEMASTER_CALLBACK_ALLOW', list, '').help(
    'Private addresses and CIDRs that callbacks may reach, also by plain http, separated by commas: `10.0.0.0/8`.',
  ),
  callbackPorts: setting('ROUTEMASTER_CALLBACK_PORTS', list, '').help(
    'The only ports that callbacks may have, separated by commas, such as `443,8000-8999`; any by default.',
  ),
  callbackCa: secretSetting('ROUTEMASTER_CALLBACK_CA', certificates.optional()).help(
    'PEM certificates, or a file with them, of your own authority that may also certify callbacks.',
  ),
  sslVerify: setting('ROUTEMASTER_SSL_VERIFY', yesNo, 'yes').help(
    'Whether callbacks must have valid TLS certificates.',
  ),
  egressProxy: secretSetting('ROUTEMASTER_EGRESS_PROXY', proxy.optional()).help(
    'URL of a proxy (CONNECT) for all deliveries. It resolves host names, so it must refuse private addresses.',
  ),
  connectTimeoutMs: setting('ROUTEMASTER_CONNECT_TIMEOUT', seconds(0.1, 600), '2').help(
    'Seconds within which the connection of a delivery must be made.',
  ),
  keptConnections: setting('ROUTEMASTER_KEPT_CONNECTIONS', whole(1, 1_000_000), '1000').help(
    'Maximum idle connections to callbacks that a worker process keeps, for a few seconds each.',
  ),
};
