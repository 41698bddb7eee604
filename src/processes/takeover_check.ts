import { refuseShortTokens } from '../authentication/weak_tokens.ts';
import { otherMeanings, variableInUse } from '../config/ruby_variables.ts';
import { environmentWarnings, readConfig } from '../config.ts';
import { BootError } from '../errors.ts';
import { createLog } from '../log.ts';
import { type Rehearsal, rehearse } from '../maintenance/rehearsal.ts';
import { type EnvironmentNotes, type Report, reportOf } from '../maintenance/rehearsal_report.ts';
import { connectOne, reasonOf } from '../store/connection.ts';
import { Partition } from '../store/partition.ts';
import { throwForOperator } from '../store/refusal.ts';
import { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { environmentFor, environmentOfBus } from './usage.ts';

/**
 * In a Ruby Routemaster, the token of a client is its credential. The report of a takeover lists tokens that are
 * shorter than this, because they can be guessed.
 */
const MIN_TOKEN_LENGTH = 16;

/**
 * Returns what a takeover would find in the Redis at `url` or, without `url`, in the Redis that the environment names.
 * Changes nothing. Calls `tell` every few seconds with a line that describes the progress. Throws BootError if there is
 * nothing that could be taken over, or if Redis cannot be read.
 */
export async function checkTakeover(
  url: string | undefined,
  tell: (progress: string) => void,
  env = process.env,
): Promise<Report> {
  const config = readConfig(environmentFor(url, env));
  if (config.partitions > 1)
    throw new BootError(
      'A Ruby Routemaster is taken over by a bus with one partition. Unset ROUTEMASTER_PARTITIONS; docs/scale.md says how ' +
        'to move the bus to several afterwards.',
    );
  const log = createLog('silent', {});
  const redis = connectOne(config.redisUrl, log, config.redisTls);
  const partition = new Partition(redis, { prefix: config.redisPrefix });
  const parts = {
    policy: new CallbackPolicy(config.callbackAllow, config),
    limits: config,
    leaseMs: config.leaseMs,
    minTokenLength: MIN_TOKEN_LENGTH,
    tell,
    log,
  };
  let found: Rehearsal;
  try {
    await new Promise<void>((resolve, reject) => {
      redis.once('ready', resolve);
      redis.once('error', (error) =>
        reject(new BootError(`Redis cannot be reached: ${reasonOf(error, config.redisUrl)}`)),
      );
    });
    found = await rehearse(partition, parts).catch((error: unknown) => throwForOperator([partition], error));
  } finally {
    redis.disconnect();
  }
  const { toDo, toKnow } = checkEnvironment(environmentOfBus(url, env));
  const notes = { toDo, toKnow: [...toKnow, ...environmentWarnings(env), ...otherMeanings(env)] };
  return reportOf(found, notes, config.leaseMs);
}

/**
 * Checks the environment variables as a web process does when it starts. Outside production, a missing root key
 * probably means that the operator's shell has none of the bus's variables. Then only the missing key is reported, and
 * nothing else is checked.
 */
function checkEnvironment(env: NodeJS.ProcessEnv): EnvironmentNotes {
  if (!env.ROUTEMASTER_ROOT_KEY && env[variableInUse('NODE_ENV', env)] !== 'production')
    return {
      toDo: [],
      toKnow: [
        'ROUTEMASTER_ROOT_KEY is not set here: the bus does not start without it, nor in production with a weak one',
      ],
    };
  try {
    const config = readConfig(env);
    if (config.compatibility === 'none') refuseShortTokens(config);
    return { toDo: [], toKnow: [] };
  } catch (error) {
    if (!(error instanceof BootError)) throw error;
    const reason = error.message.replaceAll(/\n */g, ' ');
    return { toDo: [`the bus would not start with this environment: ${reason}`], toKnow: [] };
  }
}
