import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

export interface Options {
  /** The names of the parts to run. */
  parts: string[];
  /** How many events each measurement takes; undefined: what the part thinks right. */
  events: number | undefined;
  repetitions: number;
  json: boolean;
  help: boolean;
  /** Another checkout, whose bus is measured too. */
  against: string | undefined;
  /** A directory for CPU profiles of the bus's processes. */
  cpuProf: string | undefined;
}

export class UsageError extends Error {}

/** Reads the command line. Throws UsageError. */
export function readOptions(args: string[], known: readonly string[]): Options {
  const { values, positionals } = parse(args);
  const unknown = positionals.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`there is no part ${unknown}; there is ${known.join(', ')}`);
  return {
    parts: known.filter((name) => positionals.length === 0 || positionals.includes(name)),
    events: values.events === undefined ? undefined : count('--events', values.events),
    repetitions: count('--repetitions', values.repetitions),
    json: values.json,
    help: values.help,
    against: values.against && resolve(values.against),
    cpuProf: values['cpu-prof'] && resolve(values['cpu-prof']),
  };
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        events: { type: 'string' },
        repetitions: { type: 'string', default: '3' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
        against: { type: 'string' },
        'cpu-prof': { type: 'string' },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function count(option: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new UsageError(`${option} must be a whole number above 0`);
}

export const HELP = `Usage: npm run bench -- [part…] [options]

Starts a real bus with a Redis of its own and measures it, beside what the platform itself costs: the floor.

Parts (all, unless some are named):
  publish            single events over 64 keep-alive connections, with Basic and with Digest
  deliver            a backlog delivered in batches of 1 and of 100, and the time from publish to receipt

Options:
  --events N         events a measurement, in place of what each part thinks right
  --repetitions N    how often each is measured (3): figures are the median, with [least–greatest]
  --json             the result as JSON on stdout; progress is on stderr either way
  --against DIR      measure the bus of another checkout too, in the same run
  --cpu-prof DIR     write CPU profiles of web and worker to DIR, and say which functions took the time
  -h, --help         this text

CPU is what the operating system has accounted to a process, all its threads included, divided by the events. It says
more than events/s, for which the bus, its Redis and what loads it compete for the machine's cores. Ratios are taken
repetition by repetition, between measurements made right after each other. A ratio of the CPU counts the bus's own
process; Redis has no floor.
`;
