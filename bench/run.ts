// The suite: `npm run bench`. A part is one file of parts/, named in parts.ts. It says what to measure for each row of
// its tables (part.ts), on a stage (stage.ts) that starts buses (bus.ts), Redis, and the helpers of processes/: load,
// sink, floors.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand, UsageError } from '../harness/measuring/command_line.ts';
import { describe, machine } from '../harness/measuring/machine.ts';
import { help, type Options, readOptions } from './options.ts';
import type { Measured, Part } from './part.ts';
import { PARTS } from './parts.ts';
import { emptyProfiles, profilesForPeople } from './profile.ts';
import { forMachines, forPeople, judgement } from './report.ts';
import { Stage } from './stage.ts';

type Done = Measured & { part: string };

async function run(options: Options): Promise<boolean> {
  const on = machine();
  const print = (text: string) => options.json !== '-' && process.stdout.write(`${text}\n`);
  print(describe(on));
  const done: Done[] = [];
  for (const part of PARTS.filter(({ name }) => options.parts.includes(name))) {
    const profile = options.profile && join(options.profile, part.name);
    if (profile) emptyProfiles(profile);
    const measured = await runPart(part, { ...options, profile });
    done.push(...measured.map((each) => ({ part: part.name, ...each })));
    for (const each of measured) print(`\n${forPeople(each)}\n`);
    if (profile) print(profilesForPeople(profile));
  }
  if (done.length === 0)
    throw new UsageError(`no row of ${options.parts.join(', ')} has '${options.only}' in it`);
  const tables = done.map(({ part, ...each }) => ({ part, ...forMachines(each) }));
  const json = `${JSON.stringify({ machine: on, options, tables }, null, 2)}\n`;
  if (options.json === '-') process.stdout.write(json);
  else if (options.json) writeFileSync(options.json, json);
  return passed(done, options);
}

/** Measures a part on a stage of its own. The stage ends with the part, or at a signal. */
async function runPart(part: Part, options: Options): Promise<Measured[]> {
  const stage = new Stage(options);
  const interrupted = () => void stage.close().then(() => process.exit(130));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupted);
  try {
    return await Promise.race([part.run(stage, options), stage.lost]);
  } finally {
    await stage.close();
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, interrupted);
  }
}

/** Reports how many targets are met, and returns whether the run is a success. */
function passed(done: readonly Done[], { quick, ignoreTargets }: Options): boolean {
  if (quick) return true;
  const missed = done.flatMap(({ part, verdicts }) =>
    verdicts.filter(({ met }) => !met).map((each) => `${part}: ${judgement(each)}`),
  );
  const all = done.reduce((sum, { verdicts }) => sum + verdicts.length, 0);
  process.stderr.write(`\n${all - missed.length} of ${all} targets met\n`);
  for (const each of missed) process.stderr.write(`  ${each}\n`);
  return ignoreTargets || missed.length === 0;
}

await runCommand('bench', async () => {
  const options = readOptions(
    process.argv.slice(2),
    PARTS.map(({ name }) => name),
  );
  if (!options.help) return run(options);
  process.stdout.write(help(PARTS));
  return true;
});
