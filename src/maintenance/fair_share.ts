import { ownerOf } from '../ids.ts';
import { sumOf } from '../sum.ts';

/** How much one subscriber holds in Redis: in its queue, in its deliveries in flight, and in its dead letters. */
export interface Holding {
  token: string;
  batches: number;
  bytes: number;
}

/**
 * An order to drop up to `maxDeleted` dead letters and batches of the subscriber `token`, or of all subscribers if
 * there is no `token`. The oldest dead letters are dropped first, then the oldest batches.
 */
export interface DropOrder {
  token?: string | undefined;
  maxDeleted: number;
}

/** What a subscriber must lose: in `bytes`, and as the `part` (from 0 to 1) of all that it holds. */
interface Loss {
  token: string;
  bytes: number;
  part: number;
}

/**
 * Returns who must lose how much, so that `freeBytes` become free. Only clients that hold more than the fair share (the
 * bytes that each client may keep) lose data. The data of a client's joins counts as data of the client. The losses of
 * the client that holds most come first.
 */
export function fairLosses(holdings: readonly Pick<Holding, 'token' | 'bytes'>[], freeBytes: number): Loss[] {
  const clients = [...Map.groupBy(holdings, ({ token }) => ownerOf(token)).values()]
    .map((members) => ({ members, bytes: bytesOf(members) }))
    .sort((one, other) => other.bytes - one.bytes);
  const share = fairShare(
    clients.map(({ bytes }) => bytes),
    freeBytes,
  );
  return clients
    .filter(({ bytes }) => bytes > share)
    .flatMap(({ members, bytes }) => {
      const part = (bytes - share) / bytes;
      return members.map((each) => ({ token: each.token, bytes: each.bytes * part, part }));
    });
}

/**
 * Returns the fair share: the bytes that each client may keep. If all clients drop what they hold above this share,
 * `freeBytes` become free. Returns 0 if everything must be dropped.
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
 * Returns the first drop orders of a plan: enough to drop `max` items, or all if they drop fewer. Reduces the last of
 * these orders if it would exceed `max`.
 */
export function firstDropOrders<Order extends { maxDeleted: number }>(
  plan: readonly Order[],
  max: number,
): Order[] {
  let room = max;
  const first: Order[] = [];
  for (const order of plan) {
    if (room === 0) break;
    const maxDeleted = Math.min(room, order.maxDeleted);
    first.push({ ...order, maxDeleted });
    room -= maxDeleted;
  }
  return first;
}

/**
 * Returns the drop orders of a plan that are not yet fulfilled. `dropped[i]` items were dropped for `plan[i]`, so its
 * `maxDeleted` is reduced by this number.
 */
export function withoutDropped<Order extends { maxDeleted: number }>(
  plan: readonly Order[],
  dropped: readonly number[],
): Order[] {
  return plan
    .map((order, index) => ({ ...order, maxDeleted: order.maxDeleted - (dropped[index] ?? 0) }))
    .filter(({ maxDeleted }) => maxDeleted > 0);
}

export const bytesOf = (holdings: readonly { bytes: number }[]): number =>
  sumOf(holdings.map(({ bytes }) => bytes));
