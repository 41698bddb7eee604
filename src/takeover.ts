import { otherMeanings } from './config/ruby_variables.ts';
import { environmentWarnings, readConfig } from './config.ts';
import { BootError } from './errors.ts';
import { createLog } from './log.ts';
import { type Rehearsal, rehearse } from './maintenance/rehearsal.ts';
import { reportOf } from './maintenance/rehearsal_report.ts';
import { start } from './processes/lifecycle.ts';
import { checkEnvironment, endWithUsage, environmentFor } from './processes/usage.ts';
import { connectOne, reasonOf } from './store/connection.ts';
import { Partition } from './store/partition.ts';
import { throwForOperator } from './store/refusal.ts';
import { CallbackPolicy } from './subscribing/callback_policy.ts';

/**
 * In a Ruby Routemaster, the token of a client is its credential. The report of a takeover lists tokens that are
 * shorter than this, because they can be guessed.
 */
const MIN_TOKEN_LENGTH = 16;

await start(async () => {
  const [mode, ...rest] = process.argv.slice(2);
  if (process.argv.some((argument) => /^(-h|--help)$/.test(argument))) endWithUsage('takeover');
  if (mode === undefined) endWithUsage('takeover', 'what to do is missing');
  const unknown = mode === '--check' ? rest[1] : mode;
  if (unknown !== undefined) endWithUsage('takeover', `unknown argument ${unknown}`);
  const config = readConfig(environmentFor(rest[0]));
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
    tell: (progress: string) => void process.stderr.write(`${progress}\n`),
    log,
  };
  await new Promise<void>((resolve, reject) => {
    redis.once('ready', resolve);
    redis.once('error', (error) =>
      reject(new BootError(`Redis cannot be reached: ${reasonOf(error, config.redisUrl)}`)),
    );
  });
  const found: Rehearsal = await rehearse(partition, parts).catch((error: unknown) =>
    throwForOperator([partition], error),
  );
  redis.disconnect();
  const { toDo, toKnow } = checkEnvironment(rest[0]);
  const notes = { toDo, toKnow: [...toKnow, ...environmentWarnings(), ...otherMeanings(process.env)] };
  const report = reportOf(found, notes, config.leaseMs);
  process.stdout.write(`${report.text}\n`);
  process.exitCode = report.ready ? 0 : 1;
});
