import {
  ForbiddenError,
  NotFoundError,
  type Routemaster,
  RoutemasterError,
  TimeLimitError,
  UnauthenticatedError,
} from '@routemaster/client';
import { partitionsAwayOf, workersOf, workersText } from './bus_report.ts';
import { type Call, collect, Failure } from './command.ts';
import { callbackFindings } from './doctor_callbacks.ts';
import { certificateFinding } from './doctor_connections.ts';
import { dropFindings, joinDropFindings } from './doctor_drops.ts';
import { bad, CHECK_TIMEOUT_MS, type Finding, good, type Role } from './doctor_finding.ts';
import { askHealth, clockFinding } from './doctor_health.ts';
import {
  adviceOnRefusal,
  memoryFindings,
  partitionsFinding,
  policyFindings,
  refusalFinding,
  refusalOfCommands,
} from './doctor_redis.ts';
import { type Figures, readFigures, sumOf } from './figures.ts';
import type { Join } from './joins.ts';
import { type Subscription, withoutPublisher } from './subscriptions.ts';
import { textOf } from './tables.ts';

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
  // `refusalOfCommands` calls `GET /pulse`, which fails while a partition is away, whether or not Redis takes writes.
  const refusal = away.length > 0 ? undefined : await refusalOfCommands(call);
  if (refusal !== undefined) yield refusalFinding(refusal);
  yield workersFinding(figures, refusal === undefined);
  yield* memoryFindings(figures);
  yield* policyFindings(figures);
  // The checks below read lists from the bus. While the bus cannot reach a partition, it refuses to list anything.
  if (away.length > 0) return yield partitionsFinding(away);
  // A Redis that refuses writes may also refuse the scripts that only read, which the checks below need.
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
  const advice = DATA_LOST.test(message) ? RESTORE : (adviceOnRefusal(message) ?? ADVICE[code]);
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
 * The errors with which a bus refuses a listing such as `GET /jobs`. They mean that the caller is a client (`forbidden`
 * or, in compatibility mode, `unauthenticated`), or that the bus is of version 1.0.0, which has no such listing
 * (`not_found`).
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
