import type { Routemaster } from '@routemaster/client';
import { reach } from './doctor_connections.ts';
import { bad, type Finding, good, type Role } from './doctor_finding.ts';
import { deliveries, type Failure, lastFailure, nextAttempt } from './last_failure.ts';
import type { Subscription } from './subscriptions.ts';

/**
 * An entry of `GET /subscriptions` that shows how deliveries to the subscriber go (`paused_at`, `health_points` and so
 * on). In compatibility mode, a client also gets entries of other clients, which lack these fields.
 */
type FullSubscription = Exclude<Subscription, { paused_at?: undefined }>;

/**
 * A callback that this machine cannot reach may be one that the bus can reach. The callback counts as fine if no
 * delivery fails, and the bus made the last delivery within this time. If the last delivery is older, the receiver may
 * have stopped since then.
 */
const DELIVERED_WITHIN_MS = 60_000;

/** Maximum characters of a callback that are shown. */
const MAX_SHOWN = 100;

/** Maximum subscribers to examine. A client sees only itself; root and viewers see all subscribers. */
const MAX_EXAMINED = 20;

/**
 * Yields a finding for each subscriber that it examines: how the deliveries go, and whether this machine reaches the
 * callback. A single subscriber is always examined. If there are several, only those are examined that are paused, have
 * lost health, or have dead letters, at most MAX_EXAMINED.
 */
export async function* callbackFindings(
  bus: Routemaster,
  shown: readonly Subscription[],
  role: Role,
): AsyncGenerator<Finding> {
  const all = shown.filter((each): each is FullSubscription => each.paused_at !== undefined);
  const failing = all.filter(
    (each) => each.paused_at !== null || each.health_points < 100 || each.dead_letters.batches > 0,
  );
  const examined = all.length > 1 ? failing.slice(0, MAX_EXAMINED) : all;
  for (const each of examined) yield await findingOf(bus, each, role);
  const rest = all.length - examined.length;
  if (rest === 0 || failing.length > examined.length) return;
  const noun = examined.length > 0 ? 'other' : 'subscriber';
  yield good('callbacks', `no delivery to ${rest} ${rest === 1 ? noun : `${noun}s`} fails`);
}

async function findingOf(bus: Routemaster, subscription: FullSubscription, role: Role): Promise<Finding> {
  const { subscriber, callback, health_points, paused_at, paused_by } = subscription;
  const unreached = await reach(callback);
  const here =
    unreached === undefined ? 'this machine reaches it' : `this machine does not reach it (${unreached})`;
  const at = callback.length > MAX_SHOWN ? `${callback.slice(0, MAX_SHOWN)}…` : callback;
  const detail = `${subscriber} at ${at}: ${here}`;
  if (paused_at !== null) {
    const advice = adviceWhenPaused(paused_by, role === 'client' ? '' : ` ${subscriber}`);
    return bad('callback', `${detail}; paused by ${paused_by}`, advice);
  }
  const health = health_points < 100 ? `${detail}; health ${health_points} of 100` : detail;
  const mayFail = health_points < 100 && subscription.events.queued > 0;
  const failure = mayFail ? await lastFailure(bus, subscription, role) : 'none';
  const isAcceptedSince =
    typeof failure === 'object' && (await isDelivered(bus, failure.at, subscriber, role));
  if (failure !== 'none' && !isAcceptedSince)
    return bad('callback', health, await adviceWhenFailing(bus, unreached, failure));
  // Dead letters are reported even when deliveries go well again, because they wait until a human acts.
  if (subscription.dead_letters.batches > 0)
    return bad('callback', health, await adviceOnDeadLetters(bus, subscription, role));
  const found = `${health}${progressOf(subscription, isAcceptedSince)}`;
  if (unreached === undefined || (await isDeliveredLately(bus, subscription, role)))
    return good('callback', found);
  const path = role === 'client' ? '/subscriber/test' : `/subscribers/${subscriber}/test`;
  const advice =
    `Start the receiver. If the bus alone reaches it, send a test event by POST ${path}, and look again ` +
    'within a minute.';
  return bad('callback', found, advice);
}

/**
 * True if the subscriber has accepted a delivery within DELIVERED_WITHIN_MS. If the bus is of an old release without
 * `GET /deliveries`, true if the bus has tried to deliver within this time.
 */
async function isDeliveredLately(
  bus: Routemaster,
  { subscriber, health_points, last_attempted_at }: FullSubscription,
  role: Role,
): Promise<boolean> {
  const since = Date.now() - DELIVERED_WITHIN_MS;
  if ((last_attempted_at ?? 0) < since) return false;
  // A failure costs health. So at full health, the last attempt was accepted.
  return health_points === 100 || isDelivered(bus, since, subscriber, role);
}

/**
 * True if the subscriber has accepted a batch since `since` (ms). Also true if the bus is of an old release without
 * `GET /deliveries`, which cannot tell.
 */
async function isDelivered(bus: Routemaster, since: number, subscriber: string, role: Role) {
  const taken = await deliveries(bus, { state: 'taken', since }, subscriber, role);
  return taken === undefined || taken.length > 0;
}

function progressOf(
  { events, health_points, last_attempted_at }: FullSubscription,
  isAcceptedSince: boolean,
): string {
  if (health_points === 100)
    return last_attempted_at === null ? '; nothing was delivered yet' : '; no delivery failed lately';
  if (isAcceptedSince) return ' after failures; it accepts again, and what failed waits for its next attempt';
  return ` after failures; ${events.queued === 0 ? 'nothing waits' : 'no delivery fails now'}`;
}

/** Matches the reason of an attempt that failed because nothing listened, or the host was not reached. */
const UNREACHED =
  /^(ECONNREFUSED|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|UND_ERR_CONNECT)/;

async function adviceWhenFailing(
  bus: Routemaster,
  unreached: string | undefined,
  failure: Failure | undefined,
): Promise<string> {
  const why = failure?.text ?? '';
  if (unreached !== undefined)
    return `Deliveries fail: start the receiver, or subscribe with another callback.${why}`;
  const next = failure && UNREACHED.test(failure.reason) && (await nextAttempt(bus, failure.id));
  if (next)
    return (
      `Something listens there again: the next attempt is ${next}, and rtm delivery retry ${failure.id} makes it ` +
      `now.${why}`
    );
  return `Deliveries fail, though something listens: it must answer 2xx in time.${why} Its log says more.`;
}

async function adviceOnDeadLetters(
  bus: Routemaster,
  subscription: FullSubscription,
  role: Role,
): Promise<string> {
  const of = role === 'client' ? '' : ` --subscriber ${subscription.subscriber}`;
  const why = await newestDeath(bus, subscription, role);
  return (
    `Batches became dead letters${why} See rtm dead list${of}, mend the cause, then rtm dead retry --all${of}. ` +
    'rtm dead purge removes what nobody needs.'
  );
}

/**
 * Returns the end of a sentence: why the newest dead letter was buried. If the subscriber's last failed attempt is
 * known, appends a sentence about this attempt.
 */
async function newestDeath(bus: Routemaster, subscription: FullSubscription, role: Role): Promise<string> {
  const { subscriber } = subscription;
  for await (const { join, reason } of bus.deadLetters(role === 'watcher' ? { subscriber } : {})) {
    // A join has no callback, so the dead letters of joins are skipped.
    if (join !== undefined) continue;
    const failure = await lastFailure(bus, subscription, role);
    return `, the newest by ${reason}.${typeof failure === 'object' ? failure.text : ''}`;
  }
  return '.';
}

/**
 * Returns what the user can do about a paused subscriber. `argument` is appended to commands: a space and the
 * subscriber's token, or an empty text if the user is the subscriber itself.
 */
function adviceWhenPaused(by: FullSubscription['paused_by'], argument: string): string {
  const command = `rtm sub resume${argument}`;
  if (by === 'callback_gone') return `It answered 410: subscribe again, or ${command}, when it is back.`;
  if (by === 'operator' && argument === '')
    return 'An operator paused it, and only root can go on: ask there.';
  if (by === 'operator') return `rtm audit says who paused it. When it may get events again: ${command}.`;
  return `Go on with ${command}.`;
}
