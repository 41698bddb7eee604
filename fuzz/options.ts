import { readCommandLine, readCount } from '../harness/measuring/command_line.ts';

export interface Options {
  requests: number;
  slow: number;
  seed: number;
  help: boolean;
}

/** Reads the command line. Throws UsageError. */
export function readOptions(args: string[]): Options {
  const values = readCommandLine(args, OPTIONS);
  return {
    requests: readCount('--requests', values.requests),
    slow: readCount('--slow', values.slow),
    seed: readCount('--seed', values.seed),
    help: values.help,
  };
}

const OPTIONS = {
  requests: { type: 'string', default: '1000000' },
  slow: { type: 'string', default: '1000' },
  seed: { type: 'string', default: '1' },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

export const HELP = `Usage: npm run fuzz [-- options]

Sends malformed requests to a web process of its own, from a grammar of the API and as raw bytes, with slow connections
beside them, in turns with as many good ones. Nothing may crash, answer 500 or hang, memory may not grow, and malice may
not cost good clients more than twice what good requests cost them, or 2 ms.

Options:
  --requests N   malformed requests (1000000)
  --slow N       slow connections at the same time (1000)
  --seed N       what is sent (1): the same seed sends the same requests
  -h, --help     this text

Progress is on stderr, the verdict on stdout. Ends with 1 if a bar was missed.
`;
