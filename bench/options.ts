import { resolve } from 'node:path';
import { readCommandLine, readCount, UsageError } from '../harness/measuring/command_line.ts';

export interface Options {
  /** The names of the parts to run. */
  parts: string[];
  /** Measure only the rows whose table and name contain this text, and their floors. */
  only: string | undefined;
  /** The number of measurements of each row. */
  runs: number;
  /** Measure as little as shows that everything works. */
  quick: boolean;
  /** A file for the result as JSON, or `-` for stdout. */
  json: string | undefined;
  /** True if a missed target is not a failure. */
  ignoreTargets: boolean;
  /** True if Redis writes an AOF, as with `bin/start`. */
  aof: boolean;
  /** Another checkout, whose bus is measured too. */
  against: string | undefined;
  /** A directory for CPU profiles of web and worker. */
  profile: string | undefined;
  help: boolean;
}

const OPTIONS = {
  part: { type: 'string', multiple: true },
  only: { type: 'string' },
  runs: { type: 'string' },
  quick: { type: 'boolean', default: false },
  json: { type: 'string' },
  'ignore-targets': { type: 'boolean', default: false },
  aof: { type: 'boolean', default: false },
  against: { type: 'string' },
  profile: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

/** Reads the command line. Throws UsageError. */
export function readOptions(args: string[], known: readonly string[]): Options {
  const values = readCommandLine(args, OPTIONS);
  const named = values.part?.flatMap((names) => names.split(','));
  const unknown = named?.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`there is no part ${unknown}; the parts are ${known.join(', ')}`);
  return {
    parts: known.filter((name) => named?.includes(name) ?? true),
    only: values.only,
    runs: readCount('--runs', values.runs ?? (values.quick ? '1' : '3')),
    quick: values.quick,
    json: values.json === '-' ? '-' : values.json && resolve(values.json),
    ignoreTargets: values['ignore-targets'],
    aof: values.aof,
    against: values.against && resolve(values.against),
    profile: values.profile && resolve(values.profile),
    help: values.help,
  };
}

export const help = (parts: readonly { name: string; title: string }[]) => `Usage: npm run bench -- [options]

Starts real buses, each with a Redis of its own, and measures them beside what the platform itself costs: the floor.
The tables are on stdout, progress is on stderr. All parts together take more than half an hour. Exits with 1 if a target
is missed.

Parts:
${parts.map(({ name, title }) => `  ${name.padEnd(18)} ${title}`).join('\n')}

Options:
  --part A,B         run only these parts
  --only TEXT        measure only rows whose table and name contain this text, and their floors
  --runs N           measure each row N times (3): figures are the median, with [min–max]
  --quick            a few seconds a part, once: shows that everything works, and no more than that
  --json FILE        write the result as JSON to FILE; \`-\` prints it on stdout in place of the tables
  --ignore-targets   exit with 0 though targets are missed; --quick implies it
  --aof              Redis writes an AOF, fsynced every second, as with bin/start; without, it keeps nothing
  --against DIR      measure the bus of another checkout too, in the same run (publish, bulk, client, deliver,
                     end-to-end, idle, memory, rivals); DIR needs its node_modules
  --profile DIR      write CPU profiles of web and worker to DIR, and print which functions took the time.
                     Profiled processes are slower: ignore the figures of such a run
  -h, --help         this text

CPU is what the operating system has accounted to a process with all its threads, divided by the events. It says more
than events/s, because the bus, its Redis and the load compete for the cores of one machine. Rows are measured in turn,
and ratios are taken repetition by repetition, between measurements made right after each other.
`;
