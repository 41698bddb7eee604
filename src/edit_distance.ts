/** A text counts as a misspelling of a word if it has at most one mistake for every three letters of the word. */
const LETTERS_PER_MISTAKE = 3;
/**
 * Two neighbouring characters in the wrong order, as in `tpoic` for `topic`, count as half a mistake, because such a
 * text is almost certainly a slip, and not another word.
 */
const EXCHANGE = 0.5;

/**
 * Returns the number of mistakes that turn one text into the other. Each character that is added, removed or replaced
 * is one mistake (Levenshtein). Two neighbours that are exchanged are half a mistake.
 */
function editDistance(one: string, other: string): number {
  let before: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 0; i < one.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++) {
      const replaced = (row[j] as number) + Number(one[i] !== other[j]);
      const isExchange = j > 0 && one[i] === other[j - 1] && one[i - 1] === other[j];
      const exchanged = isExchange ? (before[j - 1] as number) + EXCHANGE : Number.POSITIVE_INFINITY;
      next.push(Math.min(replaced, exchanged, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    before = row;
    row = next;
  }
  return row[other.length] as number;
}

/**
 * Returns the number of mistakes in `given` as a spelling of `word`, or infinity if there are too many: more than one
 * for every `lettersPerMistake` letters of the word. Capitals make no difference.
 */
export function mistakesIn(given: string, word: string, lettersPerMistake = LETTERS_PER_MISTAKE): number {
  const max = word.length / lettersPerMistake;
  // The lengths are compared first, because a given word of 16 KiB would take long to compare.
  if (Math.abs(given.length - word.length) > max) return Number.POSITIVE_INFINITY;
  const mistakes = editDistance(given.toLowerCase(), word.toLowerCase());
  return mistakes <= max ? mistakes : Number.POSITIVE_INFINITY;
}

/** Returns the word of `words` that `given` misspells with the fewest mistakes, or undefined if it resembles none. */
export function nearestWord(
  given: string,
  words: readonly string[],
  lettersPerMistake?: number,
): string | undefined {
  const near = words
    .map((word) => ({ word, mistakes: mistakesIn(given, word, lettersPerMistake) }))
    .filter(({ mistakes }) => mistakes < Number.POSITIVE_INFINITY);
  return near.sort((one, other) => one.mistakes - other.mistakes)[0]?.word;
}
