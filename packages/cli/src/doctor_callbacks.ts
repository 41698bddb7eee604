import type { Calls } from '@routemaster/client';
import { type Finding, reach } from './doctor_connections.ts';

type Shown = Calls['GET /subscriptions']['answer'][number];
/**
 * An entry of `GET /subscriptions` with the health of the subscriber. In compatibility mode (the bus answers like the
 * Ruby Routemaster), a client also gets the entries of other clients, but without their health.
 */
type Subscription = Exclude<Shown, { paused_at?: undefined }>;

/**
 * Maximum number of subscribers to examine, if the bus shows several, as it does to root. Then only paused and failing
 * ones are examined.
 */
const MAX_EXAMINED = 20;

/**
 * Yields a finding for each subscriber: how its deliveries go, and whether this machine reaches its callback. If the
 * bus shows several subscribers, only those that are paused or fail are examined.
 */
export async function* callbackFindings(shown: readonly Shown[]): AsyncGenerator<Finding> {
  const all = shown.filter((each): each is Subscription => each.paused_at !== undefined);
  const bad = all.filter((each) => each.paused_at !== null || each.health_points < 100);
  const examined = all.length > 1 ? bad.slice(0, MAX_EXAMINED) : all;
  for (const each of examined) yield await findingOf(each);
  const rest = all.length - examined.length;
  if (rest === 0 || bad.length > examined.length) return;
  yield {
    check: 'callbacks',
    isWell: true,
    detail: `the bus delivers to ${rest} ${rest === 1 ? 'subscriber' : 'subscribers'} without failures`,
  };
}

async function findingOf(subscription: Subscription): Promise<Finding> {
  const { subscriber, callback, health_points, paused_at, paused_by, last_attempted_at } = subscription;
  const { events, dead_letters } = subscription;
  const check = 'callback';
  const unreached = await reach(callback);
  const here = unreached === undefined ? 'this machine reaches it' : `from here: ${unreached}`;
  const detail = `${subscriber} at ${callback}: ${here}`;
  if (paused_at !== null) {
    const advice =
      paused_by === 'callback_gone'
        ? 'It answered 410: subscribe again, or rtm sub resume, when it is back.'
        : 'Go on with rtm sub resume.';
    return { check, isWell: false, detail: `${detail}; paused by ${paused_by}`, advice };
  }
  const health = `${detail}; health ${health_points} of 100`;
  if (health_points < 100 && events.queued === 0) {
    if (dead_letters.batches === 0)
      return { check, isWell: true, detail: `${health} after failures; nothing waits` };
    const advice =
      'Batches became dead letters: see rtm dead list, mend the cause, then rtm dead retry --all.';
    return { check, isWell: false, detail: health, advice };
  }
  if (health_points < 100) {
    const advice =
      unreached === undefined
        ? 'Deliveries fail, though something listens: it must answer 2xx in time. Its log says more.'
        : 'Deliveries fail: start the receiver, or subscribe with another callback.';
    return { check, isWell: false, detail: health, advice };
  }
  if (last_attempted_at !== null)
    return { check, isWell: true, detail: `${detail}; no delivery failed lately` };
  // The bus has not tried this callback yet. Only the attempt from this machine shows whether the callback can be
  // reached.
  if (unreached === undefined) return { check, isWell: true, detail: `${detail}; nothing was delivered yet` };
  const advice =
    'Start the receiver. If it is in a network of the bus alone, publish something, and look again.';
  return { check, isWell: false, detail: `${detail}; nothing was delivered yet`, advice };
}
