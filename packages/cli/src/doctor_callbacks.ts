import { type Calls, type Routemaster, RoutemasterError } from '@routemaster/client';
import { type Finding, reach } from './doctor_connections.ts';

type Shown = Calls['GET /subscriptions']['answer'][number];
/**
 * An entry of `GET /subscriptions` with the health of the subscriber. In compatibility mode (the bus answers like the
 * Ruby Routemaster), a client also gets the entries of other clients, but without their health.
 */
type Subscription = Exclude<Shown, { paused_at?: undefined }>;

/** The role of the caller: a client, which sees only its own subscription, or a watcher (root or a viewer). */
export type Role = 'client' | 'watcher';

/** Maximum characters of a callback's answer that are shown. */
const MAX_SHOWN = 100;

/**
 * Maximum number of subscribers to examine. It matters for root and viewers, to whom the bus shows all subscribers. Of
 * several subscribers, only those that are paused or fail are examined.
 */
const MAX_EXAMINED = 20;

/**
 * Yields a finding for each subscriber: how its deliveries go, and whether this machine reaches its callback. If the
 * bus shows several subscribers, only those that are paused or fail are examined.
 */
export async function* callbackFindings(
  bus: Routemaster,
  shown: readonly Shown[],
  role: Role,
): AsyncGenerator<Finding> {
  const all = shown.filter((each): each is Subscription => each.paused_at !== undefined);
  const bad = all.filter((each) => each.paused_at !== null || each.health_points < 100);
  const examined = all.length > 1 ? bad.slice(0, MAX_EXAMINED) : all;
  for (const each of examined) yield await findingOf(bus, each, role);
  const rest = all.length - examined.length;
  if (rest === 0 || bad.length > examined.length) return;
  yield {
    check: 'callbacks',
    isWell: true,
    detail: `the bus delivers to ${rest} ${rest === 1 ? 'subscriber' : 'subscribers'} without failures`,
  };
}

async function findingOf(bus: Routemaster, subscription: Subscription, role: Role): Promise<Finding> {
  const { subscriber, callback, health_points, paused_at, paused_by, last_attempted_at } = subscription;
  const { events, dead_letters } = subscription;
  const check = 'callback';
  const unreached = await reach(callback);
  const here = unreached === undefined ? 'this machine reaches it' : `from here: ${unreached}`;
  const detail = `${subscriber} at ${callback}: ${here}`;
  if (paused_at !== null) {
    const advice = adviceWhenPaused(paused_by, role === 'client' ? '' : ` ${subscriber}`);
    return { check, isWell: false, detail: `${detail}; paused by ${paused_by}`, advice };
  }
  const health = `${detail}; health ${health_points} of 100`;
  if (health_points < 100 && events.queued === 0) {
    if (dead_letters.batches === 0)
      return { check, isWell: true, detail: `${health} after failures; nothing waits` };
    const of = role === 'client' ? '' : ` --subscriber ${subscriber}`;
    const advice = `Batches became dead letters: see rtm dead list${of}, mend the cause, then rtm dead retry --all${of}.`;
    return { check, isWell: false, detail: health, advice };
  }
  if (health_points < 100) {
    const failure = await lastFailure(bus, subscriber, role);
    if (failure === '' && unreached === undefined)
      return { check, isWell: true, detail: `${health} after failures; no delivery fails now` };
    const advice =
      unreached === undefined
        ? `Deliveries fail, though something listens: it must answer 2xx in time.${failure ?? ''} Its log says more.`
        : `Deliveries fail: start the receiver, or subscribe with another callback.${failure ?? ''}`;
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

/** `argument` is what the command needs after its name: root names the subscriber, and a client resumes itself. */
function adviceWhenPaused(by: Subscription['paused_by'], argument: string): string {
  const command = `rtm sub resume${argument}`;
  if (by === 'callback_gone') return `It answered 410: subscribe again, or ${command}, when it is back.`;
  if (by === 'operator' && argument === '')
    return 'An operator paused it, and only root can go on: ask there.';
  return `Go on with ${command}.`;
}

/**
 * Returns a sentence that says how the last failed delivery to a subscriber ended. The sentence is empty if no batch
 * has failed and waits for its next attempt, or has become a dead letter. Returns undefined if the bus does not say,
 * for example because it is old and has no `GET /deliveries`.
 */
async function lastFailure(bus: Routemaster, subscriber: string, role: Role): Promise<string | undefined> {
  // A batch that keeps failing is `retrying` most of the time, `in_flight` during each attempt, and `dead` at last. An
  // attempt can end between two of these calls, so `retrying` is asked for twice.
  for (const state of ['retrying', 'in_flight', 'retrying', 'dead'] as const) {
    const query = { state, limit: 100, ...(role === 'watcher' && { subscriber }) };
    const deliveries = await bus.call('GET /deliveries', { query }).catch((error) => {
      if (error instanceof RoutemasterError) return undefined;
      throw error;
    });
    if (!deliveries) return undefined;
    // For a client, `deliveries` also has the batches of the client's joins. The bus itself counts the events of those
    // batches, and no callback gets them. So they are left out.
    const attempts = deliveries.flatMap((each) => (each.join === undefined ? each.attempts.slice(-1) : []));
    const last = attempts.filter(({ reason }) => reason !== null).sort((one, other) => other.at - one.at)[0];
    if (last) {
      const answer = last.answer ? `, ${JSON.stringify(last.answer.slice(0, MAX_SHOWN))}` : '';
      return ` The last attempt failed with ${last.reason}${answer}.`;
    }
  }
  return '';
}
