import type { Bus } from './bus.ts';
import { type Call, Failure, type Option } from './command.ts';
import { number } from './tables.ts';

/** The option of commands that ask before they remove something. */
export const YES: Readonly<Record<string, Option>> = { yes: { help: 'do not ask first on a terminal' } };

/**
 * Before a command removes a thing, it asks the bus what goes with the thing, such as queued events. The bus must
 * answer within this time.
 */
const COUNTS_TIMEOUT_MS = 2000;

/** Returns what a thing has, such as `3 queued events and 1 dead letter`. Leaves out what it has none of. */
export function counted(counts: Readonly<Record<string, number>>): string {
  const parts = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([noun, count]) => `${number(count)} ${noun}${count === 1 ? '' : 's'}`);
  const last = parts.pop() ?? '';
  return parts.length === 0 ? last : `${parts.join(', ')} and ${last}`;
}

/**
 * Removes a thing, such as `the topic orders`, by calling `end`. Asks first if a person can answer. `counts` returns
 * what goes with the thing: nouns in the singular, each with its count. A note on stderr names the thing and these
 * counts. If `counts` fails, the thing is removed all the same, and the note names the thing alone.
 */
export async function remove(
  call: Call,
  thing: string,
  counts: (bus: Bus) => Promise<Readonly<Record<string, number>>>,
  end: () => Promise<unknown>,
): Promise<void> {
  const has = await counts(countingBus(call)).then(counted, () => '');
  await confirm(call, async () => `Remove ${thing}${has && `, which has ${has}`}?`);
  await end();
  call.note(`removed ${thing}${has && `, which had ${has}`}`);
}

/** Returns an object for calls that only count what is to be removed. The user is not told that they are repeated. */
export function countingBus(call: Call): Bus {
  return call.connect({ timeoutMs: COUNTS_TIMEOUT_MS, isQuiet: true });
}

/** If stdin is a terminal, asks a question there, unless `--yes` is given. Throws Failure if the answer is not yes. */
export async function confirm({ options, streams }: Call, question: () => Promise<string>): Promise<void> {
  const { stdin, stderr } = streams;
  if (!stdin.isTTY || options.yes) return;
  stderr.write(`${await question()} [y/N] `);
  // A terminal gives a whole line at once. Leaving the loop closes stdin, which would otherwise keep the process alive.
  for await (const line of stdin) {
    if (/^y(es)?$/i.test(String(line).trim())) return;
    break;
  }
  throw new Failure('not_confirmed', 'nothing was removed');
}
