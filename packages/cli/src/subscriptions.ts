import {
  type CallOptions,
  type Calls,
  ForbiddenError,
  ProblemError,
  type Routemaster,
  SubscriberNotFoundError,
} from '@routemaster/client';
import type { Bus } from './bus.ts';
import { stateOf } from './bus_report.ts';
import { byTokenOrName } from './client_names.ts';
import {
  type Call,
  collect,
  durationOption,
  Failure,
  numberOption,
  textOption,
  UsageError,
} from './command.ts';
import { remove } from './ending.ts';
import { lastFailure, nextAttempt } from './last_failure.ts';
import { duration, members } from './tables.ts';
import { rubyYaml } from './yaml.ts';

export type Subscription = Calls['GET /subscriptions']['answer'][number];

/**
 * Subscribes the client. Prints a note on stderr. Prints nothing on stdout, as the Ruby tool `rtm` does, except the
 * signing key if the bus has made one. Without --uuid, an existing subscription keeps its `uuid`, because the receiver
 * may check this `uuid`. A new subscription gets the client's token as its `uuid`.
 */
export async function addSubscription(call: Call): Promise<void> {
  const [callback = '', ...topics] = call.args;
  const { token } = call.target();
  const settings = settingsIn(call);
  const bus = call.connect();
  const before = await subscriptionOf(bus, token);
  const uuid = textOption(call, 'uuid') ?? before?.uuid ?? token;
  const answer = await bus.subscribe({ topics, callback, uuid, ...settings });
  const key = answer?.signing_secret ?? answer?.public_key;
  call.print(answer, key === undefined ? [] : [key]);
  const left = before?.topics.filter((topic) => !topics.includes(topic)) ?? [];
  const leaving = left.length === 0 ? '' : `, and no longer to ${left.join(', ')}`;
  call.note(`subscribed to ${topics.join(', ')}${leaving}`);
}

/** Returns the settings that options give. Settings without an option keep their values. */
function settingsIn(call: Call) {
  const [ordered, signing] = [textOption(call, 'ordered'), textOption(call, 'signing')];
  if (ordered !== undefined && !/^(true|false)$/.test(ordered))
    throw new UsageError(`--ordered must be true or false, not ${ordered}`);
  return {
    timeout: numberOption(call, 'latency'),
    max: numberOption(call, 'batch-size'),
    max_bytes: numberOption(call, 'max-bytes'),
    ordered: ordered === undefined ? undefined : ordered === 'true',
    max_in_flight: numberOption(call, 'max-in-flight'),
    max_attempts: numberOption(call, 'max-attempts'),
    max_age: durationOption(call, 'max-age'),
    signing_secret: signing === 'true' || (signing === 'false' ? false : signing),
  };
}

/** Returns the subscription of the client with this token, or undefined if it has none that the caller may see. */
export async function subscriptionOf(
  bus: Routemaster,
  token: string,
  options: CallOptions = {},
): Promise<Subscription | undefined> {
  // Root and viewers see the subscriptions of all clients. So does any client if the bus answers as the Ruby
  // Routemaster does.
  for await (const each of bus.subscriptions(options)) if (each.subscriber === token) return each;
  return undefined;
}

/**
 * Returns a sentence that names the given topics without a publisher, for example misspelt topics. Returns undefined if
 * each topic has a publisher.
 */
export async function withoutPublisher(
  bus: Routemaster,
  topics: readonly string[],
): Promise<string | undefined> {
  const missing = new Set(topics);
  for await (const { name, publisher } of bus.topics({ limit: 1000 })) {
    if (publisher !== null) missing.delete(name);
  }
  if (missing.size === 0) return undefined;
  return `nobody has published to ${[...missing].join(', ')} yet; rtm topic list shows all topics`;
}

/** Time within which the bus must answer a call that only serves to give a hint. */
const HINT_TIMEOUT_MS = 2000;

/**
 * Returns the same as `withoutPublisher`, or undefined if the bus does not answer, because the result is only a hint.
 * For example, the bus lists no topics while a partition is away. The user is not told that this call is repeated,
 * because the command goes on without the hint.
 */
export function hintOnTopics(call: Call, topics: readonly string[]): Promise<string | undefined> {
  const bus = call.connect({ timeoutMs: HINT_TIMEOUT_MS, isQuiet: true });
  return withoutPublisher(bus, topics).catch(() => undefined);
}

/**
 * Prints a note if nobody subscribes to the topic, for example because its name is misspelt. The note is only a hint:
 * if the bus does not answer, none is printed.
 */
export async function noteNoSubscriber(call: Call, bus: Routemaster, topic: string): Promise<void> {
  try {
    const { subscriber_count } = await bus.topic(topic, { timeoutMs: HINT_TIMEOUT_MS });
    if (subscriber_count === 0)
      call.note(`nobody subscribes to ${topic}: events published to it go to nobody`);
  } catch {
    // If the bus does not answer GET /topics/:name, no note is printed. A bus of release 1.0.0 has no such call.
  }
}

export async function deleteSubscription(call: Call): Promise<void> {
  const bus = call.connect();
  if (call.args.length === 0) {
    const { token } = call.target();
    const counts = async (quiet: Bus) => countsOf(await subscriptionOf(quiet, token));
    return remove(call, 'the subscription', counts, () => bus.leave());
  }
  for (const topic of call.args) await bus.unsubscribe(topic);
}

/** Returns the counts of what is removed with a subscription, for `remove`. */
export function countsOf(subscription: Subscription | undefined): Record<string, number> {
  if (!subscription) return {};
  const { topics, events, dead_letters } = subscription;
  return { topic: topics.length, 'queued event': events.queued, 'dead letter': dead_letters?.batches ?? 0 };
}

/** Lists the subscriptions as the Ruby tool `rtm` does, with a few members more. */
export async function listSubscriptions(call: Call): Promise<void> {
  const subscriptions = await collect(call.connect().subscriptions());
  const shown = subscriptions.map((each) => {
    const { subscriber, callback, topics, events } = each;
    const oldest_age = events.oldest === null ? null : duration((Date.now() - events.oldest) / 1000);
    return { subscriber, callback, topics, events: { ...events, oldest_age }, ...standingOf(each) };
  });
  call.print(subscriptions, [rubyYaml(shown)]);
}

/**
 * Returns how the deliveries to a subscriber go, or an empty object if the bus does not show it. In compatibility mode,
 * the bus shows it to a client only for the client itself.
 */
function standingOf({ health_points, paused_at, events, dead_letters }: Subscription) {
  if (health_points === undefined) return {};
  const state = stateOf(health_points, events.queued, paused_at !== null);
  return { state, health: health_points, dead_letters: { ...dead_letters } };
}

export async function showSubscription(call: Call): Promise<void> {
  const [given = ''] = call.args;
  const bus = call.connect();
  const asked = byTokenOrName(bus, given, (token) => bus.subscriber(token));
  const subscription = await asked.catch((error) => {
    if (error instanceof SubscriberNotFoundError) return undefined;
    // A client may read the subscription of another client only in the listing (otherwise it gets 403). A bus of
    // release 1.0.0 has only the listing (404).
    if (error instanceof ProblemError && [403, 404].includes(error.status)) return subscriptionOf(bus, given);
    throw error;
  });
  if (subscription) return call.print(subscription, members(subscription));
  throw new Failure(
    'subscriber_not_found',
    `${given} has no subscription, or these credentials do not show it`,
  );
}

/**
 * Pauses the subscriber with the given token. If no token is given, the bus pauses the client whose credentials are
 * used.
 */
export async function pauseSubscription(call: Call): Promise<void> {
  const [token] = call.args;
  const bus = call.connect();
  await (token === undefined
    ? bus.pause().catch(refuseRoot)
    : byTokenOrName(bus, token, (each) => bus.pauseSubscriber(each)));
}

/**
 * Resumes the subscriber with the given token, or the client whose credentials are used. Prints a note on stderr if the
 * subscriber was not paused.
 */
export async function resumeSubscription(call: Call): Promise<void> {
  const [token] = call.args;
  const bus = call.connect();
  const hinting = call.connect({ timeoutMs: HINT_TIMEOUT_MS, isQuiet: true });
  const before = await (token === undefined
    ? // The path of a call is no place for the client's own token, which may be secret.
      subscriptionOf(hinting, call.target().token)
    : byTokenOrName(hinting, token, (each) => hinting.subscriber(each))
  ).catch(() => undefined);
  await (token === undefined
    ? bus.resume().catch(refuseRoot)
    : byTokenOrName(bus, token, (each) => bus.resumeSubscriber(each)));
  if (before?.paused_at !== null) return;
  const failure = await lastFailure(hinting, before, token === undefined ? 'client' : 'watcher');
  const next = typeof failure === 'object' && (await nextAttempt(hinting, failure.id));
  call.note(
    next
      ? `it was not paused; what failed is tried again ${next}, or at once by rtm delivery retry ${failure.id}`
      : 'it was not paused',
  );
}

/**
 * If the error is a ForbiddenError, throws a Failure that tells root to give a TOKEN. Otherwise throws the given error.
 */
function refuseRoot(error: Error): never {
  if (!(error instanceof ForbiddenError)) throw error;
  throw new Failure(error.code, 'only a client can leave TOKEN out; root must give the TOKEN of a client');
}
