import { RoutemasterError, TimeLimitError } from '@routemaster/client';
import { partitionsAwayText } from './bus_report.ts';
import type { Call } from './command.ts';
import { bad, type Finding } from './doctor_finding.ts';
import { type Figures, sumOf } from './figures.ts';
import { bytes } from './top_lines.ts';

/**
 * The bus must say within this time that Redis takes writes. Until it does, it is asked again, because a failover may
 * take a moment.
 */
const WRITES_TIMEOUT_MS = 2000;

/**
 * A Redis that refuses commands. `redis` is the bus's name for it, such as `partition 2`. `word` is the first word of
 * the error of Redis, such as `MISCONF`.
 */
interface Refusal {
  redis: string;
  word: string;
}

/**
 * Resolves with the refusal if a Redis refuses writes or commands, and otherwise with undefined. Also resolves with
 * undefined for a bus of version 1.0.0, which does not check whether Redis takes writes.
 */
export async function refusalOfCommands(call: Call): Promise<Refusal | undefined> {
  try {
    await call.connect({ timeoutMs: WRITES_TIMEOUT_MS, isQuiet: true }).pulse();
    return undefined;
  } catch (error) {
    const failure = error instanceof TimeLimitError ? (error.cause ?? error) : error;
    if (!(failure instanceof RoutemasterError)) throw error;
    return refusalIn(failure.message);
  }
}

/**
 * Finds the refusal in a message of the bus, such as `Redis refuses commands (MISCONF)`. Returns undefined if the
 * message has none.
 */
function refusalIn(message: string): Refusal | undefined {
  const [, redis, word] =
    /(\w+(?: \d+)?) refuses (?:commands|the user or password) \((\w+)\)/.exec(message) ?? [];
  return redis === undefined || word === undefined ? undefined : { redis, word };
}

export function refusalFinding({ redis, word }: Refusal): Finding {
  const advice = ADVICE_ON_REFUSAL[word] ?? 'The log of the bus quotes what Redis says.';
  // With NOPERM, publishes may go on: the ACL may lack a command that only some calls need.
  if (word === 'NOPERM')
    return bad(
      'commands',
      `${redis} refuses commands (${word}): calls that need them are answered 503`,
      advice,
    );
  return bad('writes', `publishes are refused: ${redis} refuses writes (${word})`, advice);
}

/**
 * Returns what to do about the refusal in a message of the bus. Returns undefined if there is no refusal, or no advice.
 */
export function adviceOnRefusal(message: string): string | undefined {
  return ADVICE_ON_REFUSAL[refusalIn(message)?.word ?? ''];
}

const ADVICE_ON_REFUSAL: Readonly<Record<string, string>> = {
  NOREPLICAS: 'Too few replicas follow Redis: start them, or lower its min-replicas-to-write.',
  MISCONF: 'Redis cannot save to its disk: make room there. Its log says more.',
  READONLY: 'The bus calls a replica: correct ROUTEMASTER_REDIS_URL, or promote it.',
  NOAUTH: 'Redis wants a password: write it into ROUTEMASTER_REDIS_URL.',
  WRONGPASS: 'Correct the user and password in ROUTEMASTER_REDIS_URL, or those of Redis.',
  NOPERM: 'The ACL of Redis forbids a command: ACL LOG names it, and docs/operating.md has the ACL.',
};

/** Yields a finding if Redis (on a cluster, one of its masters) is so full that the bus refuses publishes. */
export function* memoryFindings(figures: Figures): Generator<Finding> {
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
export function* policyFindings(figures: Figures): Generator<Finding> {
  if (sumOf(figures, 'redis_may_evict') === 0) return;
  const advice = 'Nobody would be told of them. Set it to noeviction, also in the configuration of Redis.';
  yield bad('policy', 'Redis may delete events: its maxmemory-policy is not noeviction', advice);
}

export function partitionsFinding(away: readonly number[]): Finding {
  const advice =
    'Start the Redis that has them, or wait for its replica; the log of the bus says its address. Until then ' +
    'publishes to topics there are answered 503, and deliveries there wait.';
  return bad('partitions', partitionsAwayText(away), advice);
}
