import { parseArgs } from 'node:util';
import { readConfig } from './config.ts';
import { createLog, reasonOf } from './log.ts';
import { deleteMoved, isWhole, move } from './moving/move.ts';
import { progressOn, reportOf } from './moving/report.ts';
import { openSide } from './moving/side.ts';
import { start } from './processes/lifecycle.ts';
import { endWithUsage, environmentFor } from './processes/usage.ts';

const OPTIONS = {
  from: { type: 'string' },
  to: { type: 'string' },
  partitions: { type: 'string', default: '16' },
  'from-prefix': { type: 'string' },
  'to-prefix': { type: 'string' },
  'ignore-connections': { type: 'boolean', default: false },
  'delete-source': { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h' },
} as const;

function readOptions() {
  try {
    const options = parseArgs({ options: OPTIONS }).values;
    if (options.help) endWithUsage('move');
    if (!options.to && !options['delete-source']) endWithUsage('move', '--to is missing');
    return options;
  } catch (error) {
    return endWithUsage('move', reasonOf(error));
  }
}

await start(async () => {
  const { from, to, ...options } = readOptions();
  const { redisPrefix, redisTls: tls, leaseMs, redisUrl } = readConfig(environmentFor(from));
  const log = createLog('silent', {});
  const fromPrefix = options['from-prefix'] ?? redisPrefix;
  const source = await openSide({ url: redisUrl, prefix: fromPrefix, partitions: '1', tls, log });
  if (options['delete-source']) {
    process.stdout.write(`Deleted ${await deleteMoved(source)} keys in ${source.name}.\n`);
    source.redis.disconnect();
    return;
  }
  const { redisUrl: url } = readConfig(environmentFor(to));
  const toPrefix = options['to-prefix'] ?? redisPrefix;
  const target = await openSide({ url, prefix: toPrefix, partitions: options.partitions, tls, log });
  const ignoresCallers = options['ignore-connections'];
  const comparison = await move({
    source,
    target,
    leaseMs,
    ignoresCallers,
    progress: progressOn(process.stderr),
    log,
  });
  for (const { redis } of [source, target]) redis.disconnect();
  process.stdout.write(`${reportOf(comparison, target)}\n`);
  process.exitCode = isWhole(comparison) ? 0 : 1;
});
