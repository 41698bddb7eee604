import { writeFileSync } from 'node:fs';
import { describe, machine } from '../harness/machine.ts';
import { UsageError } from '../harness/options.ts';
import { HELP, type Options, readOptions } from './options.ts';
import { forDocument, forPeople } from './report.ts';
import type { Scenario } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';
import { type Result, runScenario } from './trial.ts';

async function run(options: Options): Promise<void> {
  const on = machine();
  if (!options.json) process.stdout.write(`${describe(on)}\n`);
  const results: Result[] = [];
  for (const scenario of options.scenarios) {
    for (let nth = 0; nth < options.runs; nth++)
      results.push(await once(scenario, options.seed + nth, options));
  }
  const text = options.json ? JSON.stringify({ machine: on, results }, null, 2) : `\n${forPeople(results)}`;
  process.stdout.write(`${text}\n`);
  if (options.report) {
    const command = ['npm run faults', ...process.argv.slice(2)].join(' ').replace('faults ', 'faults -- ');
    const { scenarios } = options;
    writeFileSync(options.report, forDocument(results, { machine: describe(on), command, scenarios }));
  }
  if (results.some(({ ok }) => !ok)) process.exitCode = 1;
}

async function once(scenario: Scenario, seed: number, { quick, events }: Options): Promise<Result> {
  const beganMs = performance.now();
  const say = (text: string) => {
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1).padStart(7);
    process.stderr.write(`${scenario.name} ${seconds} s  ${text}\n`);
  };
  say(`${scenario.title}, seed ${seed}`);
  const count = events ?? (quick ? scenario.events.quick : scenario.events.full);
  const result = await runScenario(scenario, { seed, quick, say, events: count });
  say(result.ok ? 'ok' : 'NOT ok');
  return result;
}

try {
  const options = readOptions(process.argv.slice(2), SCENARIOS);
  if (options.help) process.stdout.write(HELP);
  else if (options.list)
    for (const { name, title } of SCENARIOS) process.stdout.write(`${name.padEnd(16)} ${title}\n`);
  else await run(options);
} catch (error) {
  process.stderr.write(`faults: ${error instanceof Error ? error.message : error}\n`);
  if (error instanceof UsageError) process.stderr.write('See npm run faults -- --help\n');
  process.exitCode = 1;
}
