import { readCommandLine, readCount, UsageError } from '../harness/measuring/command_line.ts';
import type { Scenario } from './scenario.ts';

export interface Options {
  scenarios: Scenario[];
  seed: number;
  /** How many events each scenario publishes; undefined for the scenario's own number. */
  events: number | undefined;
  /** The number of runs of each scenario; every run uses the next seed. */
  runs: number;
  /** The partitions of each bus, unless the scenario needs a number of its own. */
  partitions: number;
  quick: boolean;
  json: boolean;
  list: boolean;
  help: boolean;
}

/** Reads the command line. Throws UsageError. */
export function readOptions(args: string[], known: readonly Scenario[]): Options {
  const values = readCommandLine(args, OPTIONS);
  const names = values.scenario?.flatMap((each) => each.split(',')).filter((name) => name !== '');
  const unknown = names?.find((name) => !known.some((scenario) => scenario.name === name));
  if (unknown !== undefined)
    throw new UsageError(`there is no scenario ${unknown}; --list shows what there is`);
  return {
    scenarios: known.filter(({ name }) => names?.includes(name) ?? true),
    seed: readCount('--seed', values.seed),
    events: values.events === undefined ? undefined : readCount('--events', values.events),
    runs: readCount('--runs', values.runs),
    partitions: readCount('--partitions', values.partitions),
    quick: values.quick,
    json: values.json,
    list: values.list,
    help: values.help,
  };
}

const OPTIONS = {
  scenario: { type: 'string', multiple: true },
  seed: { type: 'string', default: '1' },
  events: { type: 'string' },
  runs: { type: 'string', default: '1' },
  partitions: { type: 'string', default: '1' },
  quick: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

export const HELP = `Usage: npm run faults [-- options]

Does to a real bus, with a Redis of its own, what must not hurt it, and keeps books of every event.

Options:
  --scenario A,B     only these; --list shows all
  --seed N           what is decided by chance (1): the same seed decides the same, though not when processes get to it
  --runs N           how often each is run (1), every time with the next seed
  --events N         events a scenario, in place of what each thinks right
  --partitions N     partitions of each bus (1); outbox-kill, rolling-move and what runs on a cluster keep their own
  --quick            seconds each: fewer events, fewer faults; how fast a killed worker's batches go on is not judged
  --json             the results as JSON on stdout; progress is on stderr either way
  --list             the scenarios
  -h, --help         this text

Ends with 1 if a bar was missed.
`;
