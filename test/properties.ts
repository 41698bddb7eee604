// `npm run properties -- --steps 100000 --seed 7` compares the bus with a plain model after each of 100,000 random calls.
// It reports a failure as the shortest calls that lead to it; the same seed finds it again.
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { PrivateRedis } from '../harness/redis/private_redis.ts';
import { createLog } from '../src/log.ts';
import { connectOne } from '../src/store/connection.ts';
import { Partitions } from '../src/store/partitions.ts';
import { behavesAsTheModel } from './model/property.ts';

const MAX_SEQUENCE_STEPS = 300;
/** Number of sequences of calls in one check. The steps so far are compared with --steps after each check. */
const SEQUENCES_PER_CHECK = 5;
const REPORT_EVERY_MS = 5000;

const HELP = `Usage: npm run properties -- [options]

Calls the bus's scripts at random, and checks what Redis holds after each against a plain model.

Options:
  --steps N       number of calls (100000)
  --seed N        the same seed makes the same calls (by chance)
  --partitions N  partitions of the bus (1); each has a model, and a call may change no other partition than its own
  -h, --help      this text
`;

const values = readOptions();
const wanted = wholeNumber('steps', values.steps);
const count = wholeNumber('partitions', values.partitions);
const firstSeed =
  values.seed === undefined ? Math.floor(Math.random() * 1e9) : wholeNumber('seed', values.seed);

const redis = await PrivateRedis.start();
const connection = connectOne(redis.url, createLog('silent', {}));
await once(connection, 'ready');
const partitions = Partitions.on(connection, { partitions: count });
const beganMs = performance.now();
let [steps, reportedAtMs] = [0, beganMs];
const report = () => {
  const seconds = Math.round((performance.now() - beganMs) / 1000);
  console.log(`${steps.toLocaleString('en')} of ${wanted.toLocaleString('en')} steps, ${seconds} s`);
  reportedAtMs = performance.now();
};
const countStep = () => {
  steps++;
  if (performance.now() - reportedAtMs >= REPORT_EVERY_MS) report();
};

console.log(`seed ${firstSeed}`);
const property = behavesAsTheModel(() => partitions.all, MAX_SEQUENCE_STEPS, countStep);
for (let seed = firstSeed; steps < wanted && process.exitCode === undefined; seed++) {
  const result = await fc.check(property, { numRuns: SEQUENCES_PER_CHECK, seed });
  if (!result.failed) continue;
  console.error(result.errorInstance);
  console.error(
    fc.defaultReportMessage(result),
    `\n\nfound again with: npm run properties -- --partitions ${count} --seed ${seed}`,
  );
  process.exitCode = 1;
}
report();
connection.disconnect();
await redis.stop();

function readOptions(): { steps: string; partitions: string; seed?: string } {
  try {
    const {
      steps = '100000',
      partitions = '1',
      help,
      ...seed
    } = parseArgs({
      options: {
        steps: { type: 'string' },
        partitions: { type: 'string' },
        seed: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
    if (!help) return { steps, partitions, ...seed };
    console.log(HELP);
    process.exit(0);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${HELP}`);
    process.exit(2);
  }
}

function wholeNumber(name: string, value: string): number {
  if (/^\d{1,15}$/.test(value)) return Number(value);
  console.error(`--${name} must be a whole number`);
  process.exit(2);
}
