import { type Calls, type Routemaster, RoutemasterError } from '@routemaster/client';
import type { Role } from './doctor_finding.ts';
import { timeOf } from './tables.ts';

/** Maximum characters of an answer that are shown. */
const MAX_SHOWN = 100;

/** Follows a 401 of the callback. Only a client itself sees that its `uuid` is empty; for others it is null. */
const EMPTY_UUID =
  ' The uuid of the subscription is empty, as after a call of POST /subscription without it. If the receiver checks it, ' +
  'rtm sub add URL TOPIC... --uuid TEXT sets it.';

/** The last failed attempt to deliver to a subscriber. */
export interface Failure {
  /** The id of the batch. */
  id: string;
  /** When the attempt was (ms). */
  at: number;
  reason: string;
  /** A sentence about the attempt. */
  text: string;
}

/**
 * Returns the last failed attempt to deliver a batch that the subscriber has not accepted. Such a batch is `retrying`,
 * `in_flight` or `dead`. Returns `none` if no attempt failed. Returns undefined if the bus refuses `GET /deliveries`,
 * as an old release does.
 */
export async function lastFailure(
  bus: Routemaster,
  { subscriber, uuid }: { subscriber: string; uuid: string | null },
  role: Role,
): Promise<Failure | 'none' | undefined> {
  // A batch that keeps failing is `retrying` most of the time, `in_flight` during each attempt, and `dead` at last.
  // Between two calls, it can go from `in_flight` back to `retrying`, so `retrying` is asked for twice.
  for (const state of ['retrying', 'in_flight', 'retrying', 'dead'] as const) {
    const found = await deliveries(bus, { state }, subscriber, role);
    if (!found) return undefined;
    const attempts = found.flatMap(({ id, attempts }) => attempts.slice(-1).map((last) => ({ id, ...last })));
    const last = attempts.sort((one, other) => other.at - one.at).find(({ reason }) => reason !== null);
    if (last) {
      const { id, at, reason } = last;
      const answer = last.answer ? `, ${JSON.stringify(last.answer.slice(0, MAX_SHOWN))}` : '';
      const empty = last.status === 401 && uuid === '' ? EMPTY_UUID : '';
      return { id, at, reason: reason ?? '', text: ` The last attempt failed: ${reason}${answer}.${empty}` };
    }
  }
  return 'none';
}

type Asked = Pick<NonNullable<Calls['GET /deliveries']['query']>, 'state' | 'since'>;

export async function deliveries(bus: Routemaster, asked: Asked, subscriber: string, role: Role) {
  const query = { ...asked, limit: 100, ...(role === 'watcher' && { subscriber }) };
  const found = await bus.call('GET /deliveries', { query }).catch((error) => {
    if (error instanceof RoutemasterError) return undefined;
    throw error;
  });
  return found?.filter((each) => each.join === undefined);
}

/**
 * Returns when a batch is tried next, such as `at 2026-11-30T20:00:00.000Z`. Returns undefined if the batch does not
 * wait for an attempt, or if the bus does not say.
 */
export async function nextAttempt(bus: Routemaster, id: string): Promise<string | undefined> {
  const batch = await bus.delivery(id).catch((error) => {
    if (error instanceof RoutemasterError) return undefined;
    throw error;
  });
  if (batch?.waits_for === undefined) return undefined;
  return typeof batch.next_attempt_at === 'number' ? `at ${timeOf(batch.next_attempt_at)}` : 'soon';
}
