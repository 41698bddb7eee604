/** A text counts as a misspelling of a word if it has at most one mistake for every three letters of the word. */
const LETTERS_PER_MISTAKE = 3;
/** Minimum length of a word of which a word with one other letter is taken for a misspelling. */
const MIN_LETTERS = 6;

/** Returns how many characters must be added, removed or replaced to turn one text into the other (Levenshtein). */
export function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [i, character] of [...one].entries()) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++) {
      const replaced = (row[j] as number) + Number(character !== other[j]);
      next.push(Math.min(replaced, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    row = next;
  }
  return row[other.length] as number;
}

/**
 * True if `given` has a character more, less or other than `word`, or two neighbours exchanged, or is the same. In a
 * word of fewer than MIN_LETTERS letters only an exchange counts, since many other words differ from it by one letter.
 */
export function isSlip(given: string, word: string): boolean {
  const distance = Math.abs(given.length - word.length) > 1 ? 2 : editDistance(given, word);
  if (distance === 1) return word.length >= MIN_LETTERS;
  return distance === 0 || (given.length === word.length && isExchange(given, word));
}

function isExchange(one: string, other: string): boolean {
  const at = [...one].findIndex((character, index) => character !== other[index]);
  return one.slice(0, at) + one[at + 1] + one[at] + one.slice(at + 2) === other;
}

/**
 * Returns the number of mistakes in `given` as a spelling of `word`, or infinity if there are too many. `word` must
 * have no capitals. Capitals in `given` are no mistakes.
 */
export function mistakesIn(given: string, word: string): number {
  const max = word.length / LETTERS_PER_MISTAKE;
  // The lengths are compared first, because a given word of 16 KiB would take long to compare.
  if (Math.abs(given.length - word.length) > max) return Number.POSITIVE_INFINITY;
  const mistakes = editDistance(given.toLowerCase(), word);
  return mistakes <= max ? mistakes : Number.POSITIVE_INFINITY;
}

/** Returns the word of `words` that `given` misspells with the fewest mistakes, or undefined if it resembles none. */
export function nearestWord(given: string, words: readonly string[]): string | undefined {
  const near = words
    .map((word) => ({ word, mistakes: mistakesIn(given, word) }))
    .filter(({ mistakes }) => mistakes < Number.POSITIVE_INFINITY);
  return near.sort((one, other) => one.mistakes - other.mistakes)[0]?.word;
}
