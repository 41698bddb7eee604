import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

export interface Options {
  /** The names of the parts to run. */
  parts: string[];
  /** Measure only the rows of which table and name have this text, and their floors. */
  only: string | undefined;
  /** How often each is measured. */
  runs: number;
  /** As little as shows that everything works. */
  quick: boolean;
  /** Where the result goes as JSON: a file, or `-` for stdout. */
  json: string | undefined;
  /** A document whose tables are written anew. */
  report: string | undefined;
  /** A target that is missed is no failure. */
  ignoreTargets: boolean;
  /** Redis keeps an AOF, as `bin/start` has it. */
  aof: boolean;
  /** Another checkout, whose bus is measured too. */
  against: string | undefined;
  /** A directory for CPU profiles of web and worker. */
  profile: string | undefined;
  help: boolean;
}

export class UsageError extends Error {}

/** Reads the command line. Throws UsageError. */
export function readOptions(args: string[], known: readonly string[]): Options {
  const { values, positionals } = parse(args);
  const named = [...(values.part ?? []), ...positionals].flatMap((names) => names.split(','));
  const unknown = named.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`there is no part ${unknown}; there is ${known.join(', ')}`);
  return {
    parts: known.filter((name) => named.length === 0 || named.includes(name)),
    only: values.only,
    runs: count('--runs', values.runs ?? (values.quick ? '1' : '3')),
    quick: values.quick,
    json: values.json === '-' ? '-' : values.json && resolve(values.json),
    report: values.report && resolve(values.report),
    ignoreTargets: values['ignore-targets'],
    aof: values.aof,
    against: values.against && resolve(values.against),
    profile: values.profile && resolve(values.profile),
    help: values.help,
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args: args.map((each, at) => (each === '--json' && endsAt(args[at + 1]) ? '--json=-' : each)),
      allowPositionals: true,
      options: {
        part: { type: 'string', multiple: true },
        only: { type: 'string' },
        runs: { type: 'string' },
        quick: { type: 'boolean', default: false },
        json: { type: 'string' },
        report: { type: 'string' },
        'ignore-targets': { type: 'boolean', default: false },
        aof: { type: 'boolean', default: false },
        against: { type: 'string' },
        profile: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Whether an option has no value of its own. */
function endsAt(next: string | undefined): boolean {
  return next === undefined || next.startsWith('--');
}

/** A whole number above 0. Throws UsageError. */
export function count(option: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new UsageError(`${option} must be a whole number above 0`);
}

export const help = (parts: readonly { name: string; title: string }[]) => `Usage: npm run bench -- [options]

Starts real buses, each with a Redis of its own, and measures them beside what the platform itself costs: the floor.
Fails if a target is missed. All parts together take about 20 minutes.

Parts:
${parts.map(({ name, title }) => `  ${name.padEnd(18)} ${title}`).join('\n')}

Options:
  --part NAME        run this part, in place of all; may be given again
  --only TEXT        of the parts, only rows whose table and name have this text, and the floors of these
  --runs N           how often each is measured (3): figures are the median, with [least–greatest]
  --quick            a few seconds a part, once: shows that everything works, and no more than that
  --json [FILE]      the result as JSON, into FILE or on stdout; progress is on stderr either way
  --report FILE      write the tables into FILE, each into its place there, and leave the rest of it as it is
  --ignore-targets   exit with 0 though targets are missed; --quick implies it
  --aof              Redis writes an AOF, fsynced every second, as bin/start has it; without, it keeps nothing
  --against DIR      measure the bus of another checkout too, in the same run (publish, bulk, deliver, end-to-end)
  --profile DIR      write CPU profiles of web and worker to DIR, and say which functions took the time. Profiled
                     processes are slower, so --report then writes where the time went, and no tables
  -h, --help         this text

CPU is what the operating system has accounted to a process, all its threads included, divided by the events. It says
more than events/s, for which the bus, its Redis and what loads it compete for the machine's cores. Ratios are taken
repetition by repetition, between measurements made right after each other. A ratio of the CPU counts the bus's own
process; Redis has no floor.
`;
