import { ownerOf } from '../ids.ts';

/** What one subscriber holds in Redis: its queue, its deliveries in flight, and its dead letters. */
export interface Holding {
  token: string;
  batches: number;
  bytes: number;
}

/**
 * A request to drop up to `maxDeleted` dead letters and batches: first the oldest dead letters, then the oldest
 * batches. They are taken from the subscriber `token`, or from all subscribers if there is no `token`.
 */
export interface Cut {
  token?: string;
  maxDeleted: number;
}

/**
 * Returns the cuts (requests to drop data) that free `freeBytes`. Each client may keep the same number of bytes, its
 * fair share. Only clients that hold more lose data. What the joins of a client hold counts as the client's. The cuts
 * of the client that holds most come first.
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
 * Returns the fair share: the number of bytes that each client may keep, so that `freeBytes` become free in all.
 * Clients that hold more are reduced to this number. It is 0 if everything must be dropped.
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

/**
 * Returns a single cut: a request to drop the oldest dead letters and batches of all subscribers. By estimate, dropping
 * them frees `freeBytes`.
 */
export function oldestCut(holdings: readonly Holding[], freeBytes: number): Cut[] {
  const batches = sum(holdings.map((each) => each.batches));
  const share = Math.min(1, freeBytes / Math.max(1, bytesOf(holdings)));
  return [{ maxDeleted: Math.ceil(batches * share) }];
}

/**
 * Returns the first cuts of a plan, as many as together drop at most `max`. The last cut is made smaller if it would
 * exceed `max`.
 */
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

export const bytesOf = (holdings: readonly { bytes: number }[]): number =>
  sum(holdings.map(({ bytes }) => bytes));

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
