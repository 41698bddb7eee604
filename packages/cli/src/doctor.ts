import {
  ForbiddenError,
  NotFoundError,
  type Routemaster,
  RoutemasterError,
  TimeLimitError,
  UnauthenticatedError,
} from '@routemaster/client';
import { partitionsAwayOf, partitionsAwayText, workersOf, workersText } from './bus_report.ts';
import { type Call, collect, Failure, type Target } from './command.ts';
import { callbackFindings } from './doctor_callbacks.ts';
import { certificateFinding } from './doctor_connections.ts';
import { dropFindings, joinDropFindings } from './doctor_drops.ts';
import { bad, type Finding, good, type Role } from './doctor_finding.ts';
import { type Figures, readFigures, sumOf } from './figures.ts';
import type { Join } from './joins.ts';
import { type Subscription, withoutPublisher } from './subscriptions.ts';
import { textOf } from './tables.ts';
import { bytes } from './top_lines.ts';
import { adviceIfUnreached, causeOf } from './unanswered.ts';

const CHECK_TIMEOUT_MS = 10_000;
/**
 * Maximum difference between the clocks of the bus and this machine that is not reported. A small difference is
 * uncertain, because the header Date has whole seconds and an answer takes time.
 */
const MAX_SKEW_MS = 10_000;

/** Checks from this machine whether the bus works. Prints each finding. Throws Failure if one is bad. */
export async function examine(call: Call): Promise<void> {
  const findings: Finding[] = [];
  for await (const finding of findingsOf(call)) {
    findings.push(finding);
    if (!call.options.json) call.print(undefined, linesOf(finding));
  }
  call.print(findings, []);
  const found = findings.filter(({ isWell }) => !isWell).length;
  if (found > 0) throw new Failure('not_well', `${found} of ${findings.length} checks found something`);
}

function linesOf({ check, isWell, isWarning, detail, advice }: Finding): string[] {
  const word = isWarning ? 'WARN' : isWell ? 'ok' : 'BAD';
  const first = `${word.padEnd(4)} ${check.padEnd(12)} ${textOf(detail)}`;
  return advice === undefined ? [first] : [first, `     ${' '.repeat(12)} ${textOf(advice)}`];
}

async function* findingsOf(call: Call): AsyncGenerator<Finding> {
  const target = call.target();
  const { url, token } = target;
  const reached = await askHealth(target);
  // Where nothing listens, TLS is not the problem. Advice about it would hide that the host is misspelt.
  if (url.startsWith('https:') && !reached.isUnreached) yield await certificateFinding(url);
  yield reached.finding;
  if (!reached.date) return;
  yield clockFinding(reached.date);
  const bus = call.connect({ timeoutMs: CHECK_TIMEOUT_MS });
  const [credentials, figures] = await credentialsFinding(bus);
  yield credentials;
  if (!figures) return;
  const away = partitionsAwayOf(figures);
  // While a partition is away, the call with which this is asked fails for that reason.
  const refusal = away.length > 0 ? undefined : await refusalOfWrites(call);
  if (refusal !== undefined) yield writesFinding(refusal);
  yield workersFinding(figures, refusal === undefined);
  yield* memoryFindings(figures);
  yield* policyFindings(figures);
  // The checks below read lists from the bus. While the bus cannot reach a partition, it refuses to list anything.
  if (away.length > 0) return yield partitionsFinding(away);
  // Redis may refuse scripts that read, too.
  if (refusal !== undefined) return;
  try {
    const role = await roleOf(bus);
    const subscriptions = await collect(bus.subscriptions({ limit: 1000 }));
    if (role === 'client') yield* topicsFindings(bus, subscriptions, token);
    yield* dropFindings(subscriptions, role, figures);
    yield* joinDropFindings(await joinsOf(bus), role);
    yield* callbackFindings(bus, subscriptions, role);
  } catch (error) {
    yield failureFinding('lists', error);
  }
}

/**
 * Matches the answer of a bus to `GET /health`, which is `{}`, and may get members in a later release. Another server
 * may answer 200 to everything, mostly with a page.
 */
const HEALTHY = /^\s*\{.*\}\s*$/s;

interface Reached {
  finding: Finding;
  /** True if nothing listens at the address, or if its host is not known. */
  isUnreached?: boolean;
  /** The clocks of the bus and of this machine at the same moment, in ms. Undefined if the bus was not reached. */
  date?: { busMs: number; hereMs: number };
}

/** Requests /health, which needs neither credentials nor Redis. */
async function askHealth(target: Target): Promise<Reached> {
  const { url } = target;
  const [beganMs, hereMs] = [performance.now(), Date.now()];
  try {
    const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS);
    const response = await fetch(`${url.replace(/\/$/, '')}/health`, { redirect: 'manual', signal });
    const isBus = response.status === 200 && HEALTHY.test(await response.text());
    if (!response.bodyUsed) await response.body?.cancel();
    const tookMs = performance.now() - beganMs;
    const how =
      response.status === 200 && !isBus ? ', but not as a bus does' : ` in ${Math.round(tookMs)} ms`;
    const detail = `${url} answered ${response.status}${how}`;
    if (!isBus) {
      const advice = 'Something else answers there, or a router in front of the bus: check --bus.';
      return { finding: bad('connection', detail, advice) };
    }
    const busMs = Date.parse(response.headers.get('date') ?? '');
    return { finding: good('connection', detail), date: { busMs, hereMs: hereMs + tookMs / 2 } };
  } catch (error) {
    const { code, message } = causeOf(error);
    const unreached = adviceIfUnreached(code, target);
    const advice = unreached === undefined ? adviceFor(code, target) : sentence(unreached);
    const finding = bad('connection', `${url} does not answer: ${message}`, advice);
    return { finding, isUnreached: unreached !== undefined };
  }
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function adviceFor(code: string, target: Target): string {
  if (code === 'BAD_PORT') return 'Check the port of --bus.';
  if (/CERT|TLS|SSL|^UNABLE_TO_VERIFY/.test(code)) return 'See tls above.';
  // A server that speaks only TLS closes a connection of plain http.
  if (target.url.startsWith('http:') && /^(UND_ERR_SOCKET|ECONNRESET)$/.test(code))
    return 'If https is served there, write https:// before the host.';
  if (/Timeout|TIMEDOUT|CONNECT_TIMEOUT/.test(code)) return 'A firewall may drop packets on the way.';
  return 'Check the network between this machine and the bus.';
}

function clockFinding({ busMs, hereMs }: NonNullable<Reached['date']>): Finding {
  const skewMs = hereMs - busMs;
  if (Number.isNaN(skewMs)) {
    const advice = 'A router in front of the bus removes the header Date.';
    return bad('clock', 'the bus does not say its time', advice);
  }
  // The header Date leaves out fractions of a second, so on average the bus's clock is 500 ms ahead of the header.
  const seconds = Math.round((skewMs - 500) / 1000);
  if (Math.abs(skewMs - 500) <= MAX_SKEW_MS)
    return good('clock', 'this machine and the bus agree about the time');
  const detail = `this machine is ${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} the bus`;
  const advice = 'Run NTP on both: receivers refuse signatures that are 300 s off, and ages are wrong.';
  return bad('clock', detail, advice);
}

/**
 * Reads the metrics of the bus. Returns the finding and the figures, or only the finding if the call fails, for example
 * with wrong credentials. `GET /pulse` is not used, because it fails if any of several partitions is away.
 */
async function credentialsFinding(bus: Routemaster): Promise<[Finding, figures?: Figures]> {
  try {
    const figures = readFigures(await bus.metrics());
    return [good('credentials', 'the bus knows them, and Redis answers it'), figures];
  } catch (error) {
    return [failureFinding('metrics', error)];
  }
}

function failureFinding(check: string, error: unknown): Finding {
  // After a transient error, the client library repeats the call until its time limit. The `cause` of its
  // TimeLimitError is the last failure, which says what is wrong.
  const failure = error instanceof TimeLimitError ? (error.cause ?? error) : error;
  if (!(failure instanceof RoutemasterError)) throw error;
  const { code, message } = failure;
  const { word = '' } = refusalIn(message) ?? {};
  const advice = DATA_LOST.test(message) ? RESTORE : (ADVICE_ON_REFUSAL[word] ?? ADVICE[code]);
  return bad(code === 'unauthenticated' ? 'credentials' : check, `${code}: ${message}`, advice);
}

/**
 * Matches the bus's message if Redis has lost its data. The error code is not enough: it is the same if Redis cannot be
 * reached.
 */
const DATA_LOST = /^Redis has lost the data/;
const RESTORE =
  'Stop the bus, and restore a backup of Redis. Do not just restart a process: without ROUTEMASTER_REQUIRE_DATA it ' +
  'begins a new bus.';

const ADVICE: Readonly<Record<string, string>> = {
  unauthenticated:
    'Check token and secret. A secret may have been replaced, or the client removed: root sees by rtm audit who did it, ' +
    'and when.',
  too_many_failures:
    'Too many wrong credentials came from this address: correct them all, and wait a minute.',
  storage_unavailable:
    'Redis is away, lacks the data of the bus, or refuses what it stores: the log of the bus says why.',
  rate_limited: 'These credentials call too often: something else uses them.',
};

/**
 * The errors with which a bus refuses `GET /jobs` to a client, or a call that it does not have: forbidden,
 * unauthenticated (in compatibility mode) and not_found (a bus of version 1.0.0).
 */
const REFUSALS = [ForbiddenError, UnauthenticatedError, NotFoundError];

/**
 * Finds out the role of valid credentials by listing jobs, which the bus allows only to root and viewers. A bus of
 * version 1.0.0 has no list of jobs, so even root counts as a client there.
 */
async function roleOf(bus: Routemaster): Promise<Role> {
  return bus.call('GET /jobs', { query: { limit: 1 } }).then(
    () => 'watcher',
    (error) => {
      if (REFUSALS.some((refusal) => error instanceof refusal)) return 'client';
      throw error;
    },
  );
}

/** Lists the joins that the caller may see. A bus of version 1.0.0 has none, and refuses to list them. */
async function joinsOf(bus: Routemaster): Promise<Join[]> {
  return collect(bus.joins({ limit: 1000 })).catch((error) => {
    if (REFUSALS.some((refusal) => error instanceof refusal)) return [];
    throw error;
  });
}

/**
 * Yields a finding if the client is subscribed to no topic, or to a topic without a publisher. The finding is not bad:
 * some clients only publish, and some subscribe before anybody publishes.
 */
async function* topicsFindings(
  bus: Routemaster,
  subscriptions: readonly Subscription[],
  token: string,
): AsyncGenerator<Finding> {
  const topics = subscriptions.find(({ subscriber }) => subscriber === token)?.topics ?? [];
  const detail = topics.length === 0 ? 'subscribed to no topic' : await withoutPublisher(bus, topics);
  if (detail !== undefined) yield good('topics', detail);
}

/** Time within which the bus must say once that Redis takes writes. A failover may take a moment. */
const WRITES_TIMEOUT_MS = 2000;

/** A Redis that refuses commands, as the bus names it, such as `partition 2`, and the word of its error. */
interface Refusal {
  redis: string;
  word: string;
}

/**
 * Resolves with the refusal of a Redis that refuses writes. Undefined if none does. A bus of version 1.0.0 does not ask
 * for writes; then undefined too.
 */
async function refusalOfWrites(call: Call): Promise<Refusal | undefined> {
  try {
    await call.connect({ timeoutMs: WRITES_TIMEOUT_MS, isQuiet: true }).pulse();
    return undefined;
  } catch (error) {
    const failure = error instanceof TimeLimitError ? (error.cause ?? error) : error;
    if (!(failure instanceof RoutemasterError)) throw error;
    return refusalIn(failure.message);
  }
}

/** Returns the refusal of which a message of the bus tells, such as `Redis refuses commands (MISCONF)`. */
function refusalIn(message: string): Refusal | undefined {
  const [, redis, word] =
    /(\w+(?: \d+)?) refuses (?:commands|the user or password) \((\w+)\)/.exec(message) ?? [];
  return redis === undefined || word === undefined ? undefined : { redis, word };
}

function writesFinding({ redis, word }: Refusal): Finding {
  const advice = ADVICE_ON_REFUSAL[word] ?? 'The log of the bus quotes what Redis says.';
  return bad('writes', `publishes are refused: ${redis} refuses writes (${word})`, advice);
}

const ADVICE_ON_REFUSAL: Readonly<Record<string, string>> = {
  NOREPLICAS: 'Too few replicas follow Redis: start them, or lower its min-replicas-to-write.',
  MISCONF: 'Redis cannot save to its disk: make room there. Its log says more.',
  READONLY: 'The bus calls a replica: correct ROUTEMASTER_REDIS_URL, or promote it.',
  NOAUTH: 'Redis wants a password: write it into ROUTEMASTER_REDIS_URL.',
  WRONGPASS: 'Correct the user and password in ROUTEMASTER_REDIS_URL, or those of Redis.',
  NOPERM: 'The ACL of Redis forbids a command: ACL LOG names it, and docs/operating.md has the ACL.',
};

function workersFinding(figures: Figures, takesWrites: boolean): Finding {
  const [found, due] = [workersOf(figures), sumOf(figures, 'jobs_due', { queue: 'main' })];
  if (found.workers > 0) return good('workers', `${workersText(found)}, ${due} deliveries due`);
  if (!takesWrites)
    return bad(
      'workers',
      'no worker is alive',
      'A worker that runs cannot say so while Redis refuses writes.',
    );
  const advice =
    'Start a worker process of the bus. If one runs, its log says what hinders it; if it says nothing, restart it.';
  return bad('workers', 'no worker is alive', advice);
}

/** Yields a finding if Redis (on a cluster, one of its masters) is so full that the bus refuses publishes. */
function* memoryFindings(figures: Figures): Generator<Finding> {
  const used = sumOf(figures, 'redis_memory_used_bytes');
  const highMark = sumOf(figures, 'redis_memory_high_mark_bytes');
  if (highMark === 0 || used <= highMark) return;
  const detail = `Redis stores ${bytes(used)}, more than ${bytes(highMark)}`;
  const advice =
    'Publishes are refused, and the oldest batches are dropped: raise its limit (maxmemory, and ' +
    'ROUTEMASTER_REDIS_MAX_MEM if set), or empty what is stuck. The log of the workers says more.';
  yield bad('memory', detail, advice);
}

/** Yields a finding if a Redis may delete events. A bus of version 1.0.0 does not say so. */
function* policyFindings(figures: Figures): Generator<Finding> {
  if (sumOf(figures, 'redis_may_evict') === 0) return;
  const advice = 'Nobody would be told of them. Set it to noeviction, also in the configuration of Redis.';
  yield bad('policy', 'Redis may delete events: its maxmemory-policy is not noeviction', advice);
}

function partitionsFinding(away: readonly number[]): Finding {
  const advice =
    'Start the Redis that has them, or wait for its replica; the log of the bus says its address. Until then ' +
    'publishes to topics there are answered 503, and deliveries there wait.';
  return bad('partitions', partitionsAwayText(away), advice);
}
