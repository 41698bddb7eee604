import { ownerOf } from '../ids.ts';
import { sumOf } from '../sum.ts';

/** How much one subscriber holds in Redis: in its queue, in its deliveries in flight, and in its dead letters. */
export interface Holding {
  token: string;
  batches: number;
  bytes: number;
}

/**
 * An order to drop up to `maxDeleted` dead letters and batches of the subscriber `token`, or of all subscribers if it
 * is undefined. The oldest dead letters are dropped first, then the oldest batches.
 */
export interface Cut {
  token?: string;
  maxDeleted: number;
}

/**
 * Returns the cuts that free `freeBytes`. Only clients that hold more than the fair share lose data. The data of a
 * client's joins counts as data of the client. The cuts of the client that holds most come first.
 */
export function fairCuts(holdings: readonly Holding[], freeBytes: number): Cut[] {
  const clients = [...Map.groupBy(holdings, ({ token }) => ownerOf(token)).values()]
    .map((members) => ({ members, bytes: bytesOf(members) }))
    .sort((one, other) => other.bytes - one.bytes);
  const share = fairShare(
    clients.map(({ bytes }) => bytes),
    freeBytes,
  );
  return clients
    .filter(({ bytes }) => bytes > share)
    .flatMap(({ members, bytes }) =>
      members.map(({ token, batches }) => ({
        token,
        maxDeleted: Math.ceil((batches * (bytes - share)) / bytes),
      })),
    );
}

/**
 * Returns the fair share: the bytes that each client may keep. If each client that holds more is cut down to it,
 * `freeBytes` become free. It is 0 if everything must be dropped.
 */
function fairShare(largestFirst: readonly number[], freeBytes: number): number {
  let sum = 0;
  for (const [index, bytes] of largestFirst.entries()) {
    sum += bytes;
    const share = (sum - freeBytes) / (index + 1);
    if (share >= (largestFirst[index + 1] ?? 0)) return share;
  }
  return 0;
}

/** Returns a single cut: the oldest dead letters and batches of all, until `freeBytes` are free by estimate. */
export function oldestCut(holdings: readonly Holding[], freeBytes: number): Cut[] {
  const batches = sumOf(holdings.map((each) => each.batches));
  const share = Math.min(1, freeBytes / Math.max(1, bytesOf(holdings)));
  return [{ maxDeleted: Math.ceil(batches * share) }];
}

/** Returns the beginning of a plan that drops at most `max`. The last cut is made smaller if necessary. */
export function firstCuts<C extends { maxDeleted: number }>(plan: readonly C[], max: number): C[] {
  let room = max;
  const first: C[] = [];
  for (const cut of plan) {
    if (room === 0) break;
    const maxDeleted = Math.min(room, cut.maxDeleted);
    first.push({ ...cut, maxDeleted });
    room -= maxDeleted;
  }
  return first;
}

/** Returns what is left of a plan. `dropped` has, at the index of each cut, the number that was dropped for it. */
export function withoutDropped<C extends { maxDeleted: number }>(
  plan: readonly C[],
  dropped: readonly number[],
): C[] {
  return plan
    .map((cut, index) => ({ ...cut, maxDeleted: cut.maxDeleted - (dropped[index] ?? 0) }))
    .filter(({ maxDeleted }) => maxDeleted > 0);
}

export const bytesOf = (holdings: readonly { bytes: number }[]): number =>
  sumOf(holdings.map(({ bytes }) => bytes));
