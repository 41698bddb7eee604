// The suite: `npm run bench`. A part is one file of parts/, named in parts.ts; it says what to measure for each row of its
// tables (part.ts), on a stage (stage.ts) that starts buses (bus.ts), Redis, and the helpers of processes/: load, sink, floors.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, machine } from '../harness/machine.ts';
import { help, type Options, readOptions, UsageError } from '../harness/options.ts';
import { placeInFile } from './document.ts';
import type { Measured, Part } from './part.ts';
import { PARTS } from './parts.ts';
import { emptyProfiles, profilesForDocument, profilesForPeople } from './profile.ts';
import { forDocument, forMachines, forPeople, judgement } from './report.ts';
import { Stage } from './stage.ts';

type Done = Measured & { part: string };

async function run(options: Options): Promise<Done[]> {
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
    if (options.report) report(options.report, part.name, measured, { ...options, profile });
  }
  if (done.length === 0)
    throw new UsageError(`no row of ${options.parts.join(', ')} has '${options.only}' in it`);
  const tables = done.map(({ part, ...each }) => ({ part, ...forMachines(each) }));
  const json = `${JSON.stringify({ machine: on, options, tables }, null, 2)}\n`;
  if (options.json === '-') process.stdout.write(json);
  else if (options.json) writeFileSync(options.json, json);
  return done;
}

/** Measures a part on a stage of its own, which ends with it, also by a signal. */
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

function report(file: string, part: string, measured: Measured[], { profile, ...options }: Options): void {
  const args = [
    `--part ${part}`,
    ...(options.runs === 3 || options.quick ? [] : [`--runs ${options.runs}`]),
    ...(options.quick ? ['--quick'] : []),
    ...(options.aof ? ['--aof'] : []),
    ...(options.only === undefined ? [] : [`--only '${options.only}'`]),
    ...(profile ? ['--profile DIR'] : []),
  ];
  const made = `Made by \`npm run bench -- ${args.join(' ')}\` on ${describe(machine())}, ${new Date().toISOString().slice(0, 10)}.`;
  if (profile) placeInFile(file, `profile of ${part}`, `${made}\n\n${profilesForDocument(profile)}`);
  else placeInFile(file, part, [made, ...measured.map(forDocument)].join('\n\n'));
}

/** Whether the figures are what they are to be. */
function passed(done: readonly Done[], { quick, ignoreTargets }: Options): boolean {
  const missed = done.flatMap(({ part, verdicts }) =>
    verdicts.filter(({ met }) => !met).map((each) => `${part}: ${judgement(each)}`),
  );
  const all = done.reduce((sum, { verdicts }) => sum + verdicts.length, 0);
  if (quick) return true;
  process.stderr.write(`\n${all - missed.length} of ${all} targets met\n`);
  for (const each of missed) process.stderr.write(`  ${each}\n`);
  return ignoreTargets || missed.length === 0;
}

try {
  const names = PARTS.map(({ name }) => name);
  const options = readOptions(process.argv.slice(2), names);
  if (options.help) process.stdout.write(help(PARTS));
  else if (!passed(await run(options), options)) process.exitCode = 1;
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`);
  if (error instanceof UsageError) process.stderr.write('See npm run bench -- --help\n');
  process.exitCode = 2;
}
