/** What one subscriber holds in Redis: its queue, what is in flight of it, and its dead letters. */
export interface Holding {
  token: string;
  batches: number;
  bytes: number;
}

/** How many batches and dead letters to drop, the oldest first: of one subscriber, or of all if there is no `token`. */
export interface Cut {
  token?: string;
  maxDeleted: number;
}

/**
 * Returns what to drop to free so many bytes, so that those who hold most lose first: all that hold more than a certain
 * share are cut down to it, and the others lose nothing. The largest holding comes first.
 */
export function fairCuts(holdings: readonly Holding[], freeBytes: number): Cut[] {
  const largestFirst = [...holdings].sort((one, other) => other.bytes - one.bytes);
  const share = fairShare(
    largestFirst.map(({ bytes }) => bytes),
    freeBytes,
  );
  return largestFirst
    .filter(({ bytes }) => bytes > share)
    .map(({ token, batches, bytes }) => ({
      token,
      maxDeleted: Math.ceil((batches * (bytes - share)) / bytes),
    }));
}

/** Returns what is left to each of the largest when so many bytes are freed. */
function fairShare(largestFirst: readonly number[], freeBytes: number): number {
  let sum = 0;
  for (const [index, bytes] of largestFirst.entries()) {
    sum += bytes;
    const share = (sum - freeBytes) / (index + 1);
    if (share >= (largestFirst[index + 1] ?? 0)) return share;
  }
  return 0;
}

/** Returns what to drop to free so many bytes if the oldest of all subscribers go first. */
export function oldestCut(holdings: readonly Holding[], freeBytes: number): Cut[] {
  const batches = sum(holdings.map((each) => each.batches));
  const share = Math.min(1, freeBytes / Math.max(1, sum(holdings.map(({ bytes }) => bytes))));
  return [{ maxDeleted: Math.ceil(batches * share) }];
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
