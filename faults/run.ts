import { runCommand } from '../harness/measuring/command_line.ts';
import { describe, machine } from '../harness/measuring/machine.ts';
import { HELP, type Options, readOptions } from './options.ts';
import { forPeople } from './report.ts';
import type { Scenario } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';
import { type Result, runScenario } from './trial.ts';

async function run(options: Options): Promise<boolean> {
  const on = machine();
  if (!options.json) process.stdout.write(`${describe(on)}\n`);
  const results: Result[] = [];
  for (const scenario of options.scenarios) {
    for (let nth = 0; nth < options.runs; nth++)
      results.push(await once(scenario, options.seed + nth, options));
  }
  const text = options.json ? JSON.stringify({ machine: on, results }, null, 2) : `\n${forPeople(results)}`;
  process.stdout.write(`${text}\n`);
  return results.every(({ ok }) => ok);
}

async function once(
  scenario: Scenario,
  seed: number,
  { quick, events, partitions }: Options,
): Promise<Result> {
  const beganMs = performance.now();
  const say = (text: string) => {
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1).padStart(7);
    process.stderr.write(`${scenario.name} ${seconds} s  ${text}\n`);
  };
  say(`${scenario.title}, seed ${seed}`);
  const count = events ?? (quick ? scenario.events.quick : scenario.events.full);
  const result = await runScenario(scenario, { seed, quick, partitions, say, events: count });
  say(result.ok ? 'ok' : 'NOT ok');
  return result;
}

await runCommand('faults', async () => {
  const options = readOptions(process.argv.slice(2), SCENARIOS);
  if (!options.help && !options.list) return run(options);
  const list = SCENARIOS.map(({ name, title }) => `${name.padEnd(16)} ${title}\n`);
  process.stdout.write(options.help ? HELP : list.join(''));
  return true;
});
