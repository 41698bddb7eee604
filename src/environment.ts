import { z } from 'zod';
import { readCertificates } from './certificates.ts';
import type { LogLevel } from './log.ts';

/** The longest time that Node's timers take. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^-?\d+$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));

const whole = (min: number, max: number, unset: number) => wholeNumber(min, max).default(unset);

/** Seconds in the environment, as in Routemaster; milliseconds inside. */
const seconds = (min: number, max: number, unset: number) =>
  z
    .string()
    .regex(/^\d+(\.\d+)?$/, 'must be a number of seconds')
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`))
    .default(unset)
    .transform((value) => Math.round(value * 1000));

const yesNo = z
  .string()
  .regex(/^(true|on|yes|1|false|off|no|0)$/i, 'must be yes or no')
  .transform((value) => /^(true|on|yes|1)$/i.test(value));

/** The text itself from here on: threads get it, and a file that changes later is of no account. */
const certificates = z.string().transform((value, { issues }) => {
  try {
    return readCertificates(value);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === undefined || code.startsWith('ERR_OSSL') ? '' : ` (${code})`;
    issues.push({
      code: 'custom',
      message: `must be a readable file of certificates in PEM, or these themselves${why}`,
      input: value,
    });
    return z.NEVER;
  }
});

const list = z
  .string()
  .default('')
  .transform((value) => value.split(/[\s,]+/).filter((item) => item !== ''));

function isProxy(value: string): boolean {
  try {
    const { protocol, username, password } = new URL(value);
    decodeURIComponent(username + password);
    return /^https?:$/.test(protocol);
  } catch {
    return false;
  }
}

const NO_COLON = /^[^:\s\p{Cc}]+$/u;

const bytes = (unset: number) => whole(0, Number.MAX_SAFE_INTEGER, unset);

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const satisfies LogLevel[];

/** Every variable that the bus reads. `.env.example` explains each, and a test holds the two together. */
export const ENVIRONMENT = z.object({
  PORT: whole(0, 65_535, 3000),
  WEB_CONCURRENCY: whole(1, 256, 1),
  NODE_ENV: z.string().default('development'),
  FORCE_SSL: yesNo.optional(),
  ROUTEMASTER_TRUSTED_PROXIES: wholeNumber(0, 16).optional(),
  ROUTEMASTER_DIGEST_MD5: yesNo.default(true),
  ROUTEMASTER_REDIS_URL: z.string().default('redis://localhost:6379'),
  ROUTEMASTER_REDIS_CA: certificates.optional(),
  ROUTEMASTER_REDIS_SSL_VERIFY: yesNo.default(true),
  ROUTEMASTER_ROOT_KEY: z
    .string({ error: 'must be set: the key that creates clients (32 random characters)' })
    .regex(NO_COLON, 'must have no colon and no spaces: HTTP Basic could not carry it')
    .refine((key) => key !== 'CHANGE-ME', 'is still the placeholder: make it 32 random characters'),
  ROUTEMASTER_CLIENTS: list.pipe(
    z.array(z.string().regex(NO_COLON, 'must have no colon: HTTP Basic could not carry it')),
  ),
  ROUTEMASTER_MAX_CONNECTIONS: whole(1, 1_000_000, 10_000),
  ROUTEMASTER_REQUEST_TIMEOUT: seconds(1, 3600, 30),
  ROUTEMASTER_PUBLISH_RATE: whole(0, 1_000_000_000, 0),
  ROUTEMASTER_PUBLISH_BYTES: bytes(0),
  ROUTEMASTER_PUBLISH_BURST: seconds(1, 3600, 10),
  ROUTEMASTER_MAX_TOPICS: whole(1, 1_000_000, 10_000),
  ROUTEMASTER_MAX_SUBSCRIBERS: whole(1, 1_000_000, 10_000),
  ROUTEMASTER_MAX_SUBSCRIPTION_TOPICS: whole(1, 10_000, 1000),
  ROUTEMASTER_APP_NAME: z.string().default('routemaster'),
  ROUTEMASTER_WORKER_THREADS: whole(1, 64, 2),
  ROUTEMASTER_WORKERS_PER_THREAD: whole(1, 1000, 32),
  ROUTEMASTER_LANE_LIMIT: whole(1, 1000, 16),
  ROUTEMASTER_LANE_LIMIT_MAX: whole(1, 1000, 64),
  ROUTEMASTER_MAX_ATTEMPTS: whole(1, 1_000_000, 1500),
  ROUTEMASTER_MAX_AGE: seconds(1, 31_536_000, 86_400),
  ROUTEMASTER_SWEEP_INTERVAL: seconds(1, 86_400, 300),
  ROUTEMASTER_IDEMPOTENCY_WINDOW: seconds(1, 86_400, 600),
  ROUTEMASTER_WORKER_LEASE: seconds(1, 3600, 30),
  ROUTEMASTER_ACQUIRE_TIMEOUT: seconds(0.1, 3600, 10),
  ROUTEMASTER_TIMEOUT: seconds(0.1, 3600, 20),
  ROUTEMASTER_CONNECT_TIMEOUT: seconds(0.1, 600, 2),
  ROUTEMASTER_SSL_VERIFY: yesNo.default(true),
  ROUTEMASTER_CALLBACK_ALLOW: list,
  ROUTEMASTER_CALLBACK_PORTS: list,
  ROUTEMASTER_CALLBACK_CA: certificates.optional(),
  ROUTEMASTER_EGRESS_PROXY: z
    .string()
    .refine(isProxy, 'must be a URL such as http://user:password@proxy.internal:3128')
    .optional(),
  ROUTEMASTER_HP_HEAL_RATE: whole(0, 100, 1),
  ROUTEMASTER_HP_DAMAGE_RATE: whole(-100, 0, -2),
  MAX_BACKOFF_MS: whole(0, MAX_TIMER_MS, 60_000),
  ROUTEMASTER_REDIS_MAX_MEM: bytes(0),
  ROUTEMASTER_REDIS_MIN_FREE: bytes(10_000_000),
  ROUTEMASTER_MONITOR_INTERVAL: seconds(1, 86_400, 10),
  ROUTEMASTER_COUNTER_FLUSH_INTERVAL: seconds(0.1, 3600, 5),
  ROUTEMASTER_SCALING_THRESHOLD: whole(0, Number.MAX_SAFE_INTEGER, 100),
  ROUTEMASTER_SCALING_DEADLINE: whole(0, MAX_TIMER_MS, 1000),
  ROUTEMASTER_MAX_EVENT_DATA: bytes(65_536),
  ROUTEMASTER_LOG_LEVEL: z
    .string()
    .transform((value) => value.toLowerCase())
    .pipe(z.enum(LEVELS, { error: `must be one of ${LEVELS.join(', ')}` }))
    .default('info'),
  METRIC_COLLECTION_SERVICE: z
    .enum(['print', 'prometheus', 'datadog'], { error: 'must be print, prometheus or datadog' })
    .default('prometheus'),
  DD_AGENT_HOST: z.string().default('127.0.0.1'),
  DD_DOGSTATSD_PORT: whole(1, 65_535, 8125),
});

export const ENVIRONMENT_VARIABLES: readonly string[] = Object.keys(ENVIRONMENT.shape);
