import { parseArgs } from 'node:util';
import { readConfig } from './config.ts';
import { BootError } from './errors.ts';
import { createLog, reasonOf } from './log.ts';
import { move } from './moving/move.ts';
import { comparisonTable, progressOn } from './moving/report.ts';
import { openSide } from './moving/side.ts';
import { start } from './process.ts';

const OPTIONS = {
  from: { type: 'string' },
  to: { type: 'string' },
  partitions: { type: 'string' },
  'from-prefix': { type: 'string' },
  'to-prefix': { type: 'string' },
  'ignore-connections': { type: 'boolean' },
} as const;

function readOptions() {
  try {
    return parseArgs({ options: OPTIONS }).values;
  } catch (cause) {
    throw new BootError(`${reasonOf(cause)}. bin/move --help says how to use it.`, { cause });
  }
}

/** Returns the environment in which the bus runs. The move needs no real root key. */
function environment(url: string | undefined): NodeJS.ProcessEnv {
  const { REDIS_ENV_KEY, ...env } = process.env;
  const redis = url === undefined ? { REDIS_ENV_KEY } : { ROUTEMASTER_REDIS_URL: url };
  return { ROUTEMASTER_ROOT_KEY: 'not-needed', ...env, NODE_ENV: undefined, RACK_ENV: undefined, ...redis };
}

await start(async () => {
  const { from, to, ...options } = readOptions();
  const count = Number(options.partitions ?? '16');
  if (!Number.isInteger(count) || count < 2 || count > 256)
    throw new BootError('--partitions must be a whole number from 2 to 256.');
  const { redisPrefix, redisTls: tls, leaseMs, redisUrl } = readConfig(environment(from));
  const log = createLog('silent', {});
  const [fromPrefix, toPrefix] = [options['from-prefix'] ?? redisPrefix, options['to-prefix'] ?? redisPrefix];
  const source = await openSide({ url: redisUrl, prefix: fromPrefix, partitions: 1, tls, log });
  const { redisUrl: toUrl } = readConfig(environment(to));
  const target = await openSide({ url: toUrl, prefix: toPrefix, partitions: count, tls, log });
  const ignoresCallers = options['ignore-connections'] ?? false;
  const progress = progressOn(process.stderr);
  const comparison = await move({ source, target, leaseMs, ignoresCallers, progress, log });
  for (const { redis } of [source, target]) redis.disconnect();
  const isWhole = comparison.every((each) => each.source === each.target);
  process.stdout.write(`\n${comparisonTable(comparison)}\n\n`);
  process.stdout.write(
    isWhole
      ? `Moved to ${count} partitions in ${target.name}. Run the bus there with ROUTEMASTER_PARTITIONS=${count}.\n`
      : 'The target differs from the source, so no process starts on it. Run the same command again.\n',
  );
  process.exitCode = isWhole ? 0 : 1;
});
