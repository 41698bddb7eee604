import { describe, machine } from './machine.ts';
import { HELP, type Options, readOptions, UsageError } from './options.ts';
import { deliver } from './parts/deliver.ts';
import { publish } from './parts/publish.ts';
import { summarizeProfiles } from './profile.ts';
import { forMachines, forPeople } from './report.ts';
import type { Table } from './result.ts';
import { Stage } from './stage.ts';

const PARTS: Record<string, (stage: Stage, options: Options) => Promise<Table[]>> = { publish, deliver };

async function run(options: Options): Promise<void> {
  const tables: Table[] = [];
  const on = machine();
  if (!options.json) process.stdout.write(`${describe(on)}\n`);
  for (const part of options.parts) {
    const stage = new Stage(options.cpuProf);
    process.removeAllListeners('SIGINT').removeAllListeners('SIGTERM');
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => stage.close().then(() => process.exit(130)));
    }
    try {
      const made = await Promise.race([PARTS[part]?.(stage, options) ?? [], stage.lost]);
      tables.push(...made);
      if (!options.json) for (const table of made) process.stdout.write(`\n${forPeople(table)}\n\n`);
    } finally {
      await stage.close();
    }
  }
  const whole = { machine: on, options, tables: tables.map(forMachines) };
  if (options.json) process.stdout.write(`${JSON.stringify(whole, null, 2)}\n`);
  if (options.cpuProf) process.stderr.write(summarizeProfiles(options.cpuProf));
}

try {
  const options = readOptions(process.argv.slice(2), Object.keys(PARTS));
  if (options.help) process.stdout.write(HELP);
  else await run(options);
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`);
  if (error instanceof UsageError) process.stderr.write('See npm run bench -- --help\n');
  process.exitCode = 1;
}
