import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { ProblemError, type Routemaster, type RoutemasterError } from '@routemaster/client';
import { createReceiver, type Delivery, MemoryStore, type ReceivedEvent } from '@routemaster/receiver';
import { type Call, Failure, numberOption, textOption, UsageError } from './command.ts';
import { jsonText, parseJson } from './long_numbers.ts';
import { hintOnTopics, type Subscription, subscriptionOf } from './subscriptions.ts';
import { eventLine } from './tables.ts';
import { adviseIfPerhapsDone, causeOf, withAdvice } from './unanswered.ts';

/** The default port of `rtm listen` and of `bin/receive`. `bin/start` makes its bus allow callbacks on this port. */
const PORT = 9292;
const FORWARD_TIMEOUT_MS = 30_000;
/** Interval at which the bus is asked whether the client is still subscribed. */
const CHECK_EVERY_MS = 5000;
const REFUSED =
  'refused a delivery that is not for this subscription, but perhaps for another with a callback at this port; ' +
  'the bus sends it again later (said once)';
/**
 * At Ctrl-C, the bus is asked whether the client still has this subscription. It must answer within this time, because
 * a user waits.
 */
const LAST_CHECK_TIMEOUT_MS = 2000;
const MAY_BE_LEFT = 'the subscription may be left: rtm sub del ends it';

/**
 * Subscribes the client until Ctrl-C, and prints the events that are delivered. Throws Failure if the client has a
 * subscription already, because Ctrl-C would end that subscription. Throws an error within a few seconds if somebody
 * else ends or replaces the subscription, or removes the client.
 */
export async function listen(call: Call): Promise<void> {
  const target = targetOf(textOption(call, 'forward-to'));
  const bus = call.connect();
  const { token } = call.target();
  const subscription = await subscriptionOf(bus, token);
  if (subscription) {
    const advice =
      'make a client for this with rtm token add, and give its token; ' +
      'if a listener that was killed left the subscription, rtm sub del ends it';
    throw new Failure(
      'already_subscribed',
      `the client has a subscription at ${subscription.callback}, which listening would end; ${advice}`,
    );
  }
  /** Aborted when the command ends, so that it does not wait for a target that does not answer. */
  const ended = new AbortController();
  const uuid = randomUUID();
  let hasTold = false;
  const receiver = createReceiver({
    uuid,
    store: new MemoryStore(),
    parse: parseJson,
    on: {
      '*': async (events, delivery) => {
        if (target) await forward(target, events, delivery, ended.signal);
        print(call, events);
      },
    },
    onRefused: () => {
      if (!hasTold) call.note(REFUSED);
      hasTold = true;
    },
    onError: (error) => {
      if (ended.signal.aborted) return;
      call.note(`not taken, so the bus sends it again: ${(error as Error).message}`);
    },
  });
  const server = createServer(receiver.node());
  await listenAt(numberOption(call, 'port') ?? PORT, server);
  try {
    const { port } = server.address() as AddressInfo;
    const given = textOption(call, 'callback');
    const callback = given ?? `http://127.0.0.1:${port}/`;
    const interrupted = call.interruption();
    const hint = await hintOnTopics(call, call.args);
    const subscribing = bus.subscribe({ topics: call.args, callback, uuid, timeout: 0 });
    const chosen = given === undefined ? callback : undefined;
    await subscribing.catch(adviseIfPerhapsDone(MAY_BE_LEFT)).catch(adviseOnCallback(chosen));
    call.note(`listening to ${call.args.join(', ')} at ${callback}; Ctrl-C ends`);
    if (hint !== undefined) call.note(hint);
    const refuseOther = (found: Subscription | undefined) => {
      // A bus of an earlier release may not show the `uuid`.
      if (found?.uuid === undefined) return;
      // `rtm sub add` keeps the `uuid` of the subscription that it replaces, so the callback is compared too.
      if (found.uuid !== uuid || withoutUser(found.callback) !== withoutUser(callback))
        throw replacedBy(found);
    };
    await whileSubscribed(bus, token, refuseOther, interrupted);
    // Leaving would end the subscription of somebody else, and drop its events.
    refuseOther(
      await subscriptionOf(bus, token, { timeoutMs: LAST_CHECK_TIMEOUT_MS }).catch(() => undefined),
    );
    await bus.leave().catch((error: RoutemasterError) => {
      const { code, message } = error;
      if (code === 'subscriber_not_found') throw error;
      throw new Failure(code, withAdvice(message, MAY_BE_LEFT));
    });
  } finally {
    ended.abort();
    server.close();
    server.closeAllConnections();
  }
}

/** Returns a callback as a URL without a user name, which the bus does not show. */
function withoutUser(callback: string): string {
  const url = new URL(callback);
  url.username = '';
  url.password = '';
  return url.href;
}

function replacedBy({ callback }: Subscription): Failure {
  const what = `somebody else has subscribed with the same token, at ${callback}: that subscription stays`;
  return new Failure('subscription_replaced', `${what}; make a client for listening with rtm token add`);
}

/**
 * Resolves when `signal` is aborted. Throws an error if the subscription has ended, if `refuseOther` throws one for it,
 * or if the bus refuses the client. Ignores other failures, because deliveries go on when the bus is back.
 */
async function whileSubscribed(
  bus: Routemaster,
  token: string,
  refuseOther: (found: Subscription) => void,
  signal: AbortSignal,
): Promise<void> {
  while (await sleep(CHECK_EVERY_MS, true, { signal }).catch(() => false)) {
    try {
      const found = await subscriptionOf(bus, token, { signal });
      if (!found) throw new Failure('subscriber_not_found', 'somebody else has ended the subscription');
      refuseOther(found);
    } catch (error) {
      const isRefusal = error instanceof ProblemError && (error.status === 401 || error.status === 403);
      if (error instanceof Failure || isRefusal) throw error;
    }
  }
}

/**
 * Returns a handler for the errors of a call that subscribes. If the bus refused a callback that rtm has `chosen`, the
 * error also says what the user can do.
 */
function adviseOnCallback(chosen: string | undefined): (error: RoutemasterError) => never {
  return (error) => {
    if (chosen === undefined || error.code !== 'bad_callback') throw error;
    const advice =
      'give a --port that the bus allows, or by --callback a URL that leads there, as of a tunnel';
    throw new Failure(error.code, `${error.message}; the callback was ${chosen}: ${advice}`);
  };
}

async function listenAt(port: number, server: Server): Promise<void> {
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ERR_SOCKET_BAD_PORT') throw new UsageError(`--port must be at most 65535, not ${port}`);
    if (code !== 'EADDRINUSE') throw error;
    const who = port === PORT ? ', perhaps by bin/receive' : '';
    const advice = 'stop what listens there, or give --port one of ROUTEMASTER_CALLBACK_PORTS of the bus';
    throw new Failure('port_taken', `port ${port} is in use${who}: ${advice}`);
  }
}

/**
 * The receiver to which `rtm listen` forwards events. `authorization` is a header with the user name from the URL of
 * `--forward-to`. This user name should be the subscriber's `uuid`: the bus sends the `uuid` with each delivery, and a
 * receiver may refuse deliveries without it.
 */
interface Forwarding {
  url: string;
  authorization: string | undefined;
}

function targetOf(text: string | undefined): Forwarding | undefined {
  if (text === undefined) return undefined;
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text))
    throw new UsageError(
      `--forward-to must be a URL, such as http://UUID@localhost:3000/events, not ${text}`,
    );
  const url = new URL(text);
  const user = decodeURIComponent(url.username);
  // `fetch` refuses a URL with a user name, so the Authorization header carries the user name.
  url.username = '';
  url.password = '';
  const authorization = user === '' ? undefined : `Basic ${Buffer.from(`${user}:x`).toString('base64')}`;
  return { url: url.href, authorization };
}

function print(call: Call, events: readonly ReceivedEvent[]): void {
  for (const event of events) call.print(event, [eventLine(event)]);
}

/** Forwards a delivery. Throws if the receiver does not accept it, or if `ended` is aborted. */
async function forward(
  { url, authorization }: Forwarding,
  events: readonly ReceivedEvent[],
  { id, attempt }: Delivery,
  ended: AbortSignal,
): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    // The bus follows no redirects. A redirect that `fetch` follows becomes a GET, which loses the events.
    redirect: 'manual',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'routemaster-attempt': String(attempt),
      ...(authorization !== undefined && { authorization }),
    },
    body: jsonText(events),
    signal: AbortSignal.any([ended, AbortSignal.timeout(FORWARD_TIMEOUT_MS)]),
  }).catch((error) => {
    throw new Error(`${url} does not answer: ${causeOf(error).message}`);
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
}
