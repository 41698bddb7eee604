// `npm run properties -- --steps 100000 --seed 7` compares the bus with plain models after each of 100,000 random
// steps. It reports a failure as the shortest steps that lead to it; the same seed finds it again.
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { PrivateRedis } from '../harness/redis/private_redis.ts';
import { createLog } from '../src/log.ts';
import { connectOne } from '../src/store/connection.ts';
import { Partitions } from '../src/store/partitions.ts';
import { crossesOnce } from './model/crossing_property.ts';
import { flowsOnce } from './model/flow_property.ts';
import { behavesAsTheModel } from './model/property.ts';

const MAX_SEQUENCE_STEPS = 300;
const CROSSED_PARTITIONS = 3;
const REPORT_EVERY_MS = 5000;

const HELP = `Usage: npm run properties -- [options]

Checks the bus against plain models, in turn:

  calls     calls the scripts at random, and checks what Redis holds after each; now and then, another Redis takes over
            that lacks the last calls
  crossing  publishes, subscribes and removes in three partitions at the same time; chooses which call Redis gets next,
            and which fails, and when another Redis takes over for a partition, perhaps with a clock that is behind
  flow      calls the scripts of clients, triggers and joins at random, and checks that all is there, and is done once,
            also when another Redis takes over

Options:
  --steps N       number of steps (100000). The sequence that reaches it, of 300 steps or so at most, goes on to its end
  --seed N        the same seed makes the same steps (by chance)
  --model NAME    only this model
  --partitions N  partitions for calls (1); each has a model, and a call may change no other partition than its own
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
const crossed = Partitions.on(connection, { partitions: CROSSED_PARTITIONS });
const beganMs = performance.now();
let [steps, reportedAtMs] = [0, beganMs];
const report = (ofAll = '') => {
  const seconds = Math.round((performance.now() - beganMs) / 1000);
  console.log(`${steps.toLocaleString('en')}${ofAll} steps, ${seconds} s`);
  reportedAtMs = performance.now();
};
const countStep = () => {
  steps++;
  if (performance.now() - reportedAtMs >= REPORT_EVERY_MS) report(` of ${wanted.toLocaleString('en')}`);
};

console.log(`seed ${firstSeed}`);
const models = {
  calls: behavesAsTheModel(() => partitions.all, MAX_SEQUENCE_STEPS, countStep),
  crossing: crossesOnce(() => crossed, MAX_SEQUENCE_STEPS, countStep),
  flow: flowsOnce(() => partitions.control, MAX_SEQUENCE_STEPS, countStep),
};
const chosen = Object.entries(models).filter(([name]) => values.model === undefined || name === values.model);
if (chosen.length === 0) {
  console.error(`there is no model ${values.model}`);
  process.exitCode = 2;
}
for (let seed = firstSeed; steps < wanted && process.exitCode === undefined; seed++)
  for (const [name, property] of chosen) {
    if (steps >= wanted) break;
    const result = await fc.check<unknown>(property, { numRuns: 1, seed });
    if (!result.failed) continue;
    console.error(result.errorInstance);
    const again = `--model ${name} --partitions ${count} --seed ${seed}`;
    console.error(fc.defaultReportMessage(result), `\n\nfound again with: npm run properties -- ${again}`);
    process.exitCode = 1;
  }
report();
connection.disconnect();
await redis.stop();

function readOptions(): { steps: string; partitions: string; seed?: string; model?: string } {
  try {
    const {
      steps = '100000',
      partitions = '1',
      help,
      ...others
    } = parseArgs({
      options: {
        steps: { type: 'string' },
        partitions: { type: 'string' },
        seed: { type: 'string' },
        model: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
    if (!help) return { steps, partitions, ...others };
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
