import { COMMANDS } from './commands.ts';

/**
 * For every three characters of what the user typed, one typing error is forgiven: one in a name of five characters,
 * two in a name of six.
 */
const LETTERS_PER_ERROR = 3;

const HELP = 'rtm help lists all commands.';

/** Returns a text that says why the arguments name no command, and which command may be meant. */
export function unknownCommand([first = '', second = '']: readonly string[]): string {
  if (first.startsWith('-')) return `The command comes first, before ${first}. ${HELP}`;
  const names = COMMANDS.map(({ name }) => name);
  const seconds = names.flatMap((name) => (name.startsWith(`${first} `) ? name.split(' ').slice(1) : []));
  if (seconds.length === 0) return noSuch(first, [...names, ...names.flatMap((name) => name.split(' ', 1))]);
  const listed = `After ${first} comes one of these: ${seconds.join(', ')}. ${HELP}`;
  if (second === '' || second.startsWith('-')) return listed;
  return noSuch(
    `${first} ${second}`,
    seconds.map((each) => `${first} ${each}`),
    listed,
  );
}

function noSuch(given: string, names: readonly string[], advice = HELP): string {
  const near = nearest(given, names);
  const meant = near === undefined ? '' : ` Did you mean rtm ${near}?`;
  return `There is no command ${given}.${meant} ${advice}`;
}

/** Returns the name that is most like `given`, or undefined if none is similar enough. */
export function nearest(given: string, names: readonly string[]): string | undefined {
  const last = (text: string) => text.split(' ').at(-1) ?? '';
  const close = names
    .map((name) => ({ name, errors: distance(given, name) }))
    .filter(({ name, errors }) => {
      const isBeginning = last(name).length >= LETTERS_PER_ERROR && given.startsWith(name);
      return isBeginning || errors <= last(given).length / LETTERS_PER_ERROR;
    });
  return close.sort((one, other) => one.errors - other.errors)[0]?.name;
}

/**
 * Returns how many changes turn `one` into `other`. A change adds, removes or replaces a character, or swaps it with
 * the next one.
 */
function distance(one: string, other: string): number {
  let before: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (let line = 0; line < one.length; line++) {
    const next = [line + 1];
    for (let column = 0; column < other.length; column++) {
      const replaced = (row[column] ?? 0) + Number(one[line] !== other[column]);
      const isSwapped = one[line] === other[column - 1] && one[line - 1] === other[column];
      const swapped = isSwapped ? (before[column - 1] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      next.push(Math.min(replaced, swapped, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    [before, row] = [row, next];
  }
  return row[other.length] ?? 0;
}
