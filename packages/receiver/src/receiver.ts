import { type DeliveryStore, refuseWrongNumber } from './delivery_store.ts';
import { type Delivery, type DropNotice, type ReceivedEvent, readDropNotice } from './event.ts';
import { areEqual, signatureCheck } from './signature.ts';

/**
 * Handles the events of one topic in a delivery, in their order. If any handler throws, or returns ids of events that
 * failed, the bus repeats the whole delivery. A handler wrapped in `onlyNewest` then gets only the events that it has
 * not handled yet.
 */
export type Handler<Data = unknown> = (
  events: ReceivedEvent<Data>[],
  delivery: Delivery,
) => Promise<Handled> | Handled;

// biome-ignore lint/suspicious/noConfusingVoidType: a handler usually has no `return`.
export type Handled = void | { failed: readonly string[] };

/**
 * The handlers of events, by topic. The handler `*` gets the events of all topics that have no handler of their own.
 * Without a handler `*`, these events are ignored, and `console.warn` says so once for each topic. If `on` has no
 * handler at all, nothing is printed.
 */
export type Handlers<Topics> = string extends keyof Topics
  ? { [topic: string]: Handler }
  : { [Topic in keyof Topics]?: Handler<Topics[Topic]> } & { '*'?: Handler };

export interface ReceiverOptions<Topics = Record<string, unknown>> {
  /**
   * The `uuid` with which the service has subscribed. The bus sends it with each delivery as the user name of HTTP
   * Basic. Deliveries without it are refused. To change the `uuid`, give both the old and the new one for a while.
   */
  uuid?: string | readonly string[];
  /**
   * The secret (`whsec_…`) or public key (`whpk_…`) of signatures. If it is given, deliveries without a valid signature
   * are refused. To change the secret or key, give both the old and the new one for a while.
   */
  signingSecret?: string | readonly string[];
  on: Handlers<Topics>;
  /** The store by which repeated deliveries are recognized. Without a store, a repeated delivery is handled again. */
  store?: DeliveryStore;
  /** Called before the handlers, with the URLs of the events, to remove cached copies of what has changed. */
  bustCache?: (urls: string[]) => Promise<void> | void;
  /**
   * Called before the handlers if a delivery says that the bus has dropped events. Also called for a repeat of a
   * handled delivery, because the notice in the repeat may be new. If the function throws, the delivery is refused, and
   * repeated later.
   */
  onDropped?: (notice: DropNotice, delivery: Delivery) => Promise<void> | void;
  /**
   * Parses the text of a body; JSON.parse by default, which rounds whole numbers above 2^53. If `parse` throws, or
   * returns no array of events, `onError` is called, and the answer is 400.
   */
  parse?: (text: string) => unknown;
  /**
   * Called with an error of a handler, of the store or of `parse`. By default the error is printed by `console.error`.
   */
  onError?: (error: unknown, delivery: Delivery) => void;
  /**
   * Called with the reason if a delivery is refused because its `uuid` or signature is wrong. By default `console.warn`
   * prints each reason once a minute at most, because anybody can send such requests.
   */
  onRefused?: (reason: string) => void;
  /** Maximum difference in seconds between the time of a signature and this machine's clock; 300 by default. */
  toleranceSeconds?: number;
  /**
   * Maximum bytes of a body; 33 MiB by default. The bus sends at most the subscriber's `max_bytes` (1 MiB by default,
   * 16 MiB at most), unless a single event is longer.
   */
  maxBytes?: number;
}

/** The headers of a request, by name in lower case. */
export type Headers = Record<string, string | string[] | undefined>;

export interface Answer {
  status: number;
  headers: Record<string, string>;
  /**
   * The text of the answer, empty if the delivery was accepted. The bus stores it with the attempt, so that people can
   * read it.
   */
  body: string;
}

/** All options, each with its type. With this type, the compiler reports an option that is missing in the list. */
const OPTIONS: Record<keyof ReceiverOptions, 'text' | 'handlers' | 'store' | 'function' | 'number'> = {
  uuid: 'text',
  signingSecret: 'text',
  on: 'handlers',
  store: 'store',
  bustCache: 'function',
  onDropped: 'function',
  parse: 'function',
  onError: 'function',
  onRefused: 'function',
  toleranceSeconds: 'number',
  maxBytes: 'number',
};

const DEFAULT_MAX_BYTES = 33 * 1024 * 1024;
const DEFAULT_TOLERANCE_SECONDS = 300;
const BUSY_RETRY_SECONDS = 5;
const WARN_EVERY_MS = 60_000;
/** The topic of test events, which the bus sends on request. They show that deliveries arrive, and need no handler. */
const TEST_TOPIC = 'routemaster_test';

/** Checks deliveries and passes their events to handlers. adapters.ts connects this class to servers. */
export class Deliveries {
  readonly maxBytes: number;
  readonly #options: ReceiverOptions;
  readonly #authorizations: string[];
  readonly #signature: ReturnType<typeof signatureCheck> | undefined;
  /** When each reason for a refusal was last printed. There are only eight reasons, so the map stays small. */
  readonly #warnedAtMs = new Map<string, number>();
  /**
   * The topics without a handler for which a warning was printed. Only genuine deliveries add a topic, so strangers
   * cannot fill the set.
   */
  readonly #ignoredTopics = new Set([TEST_TOPIC]);

  /**
   * Throws TypeError if there are no options, if one is unknown, if neither `uuid` nor `signingSecret` is given, or if
   * a given value is malformed. Throws RangeError for a number that is not above 0.
   */
  constructor(options: ReceiverOptions) {
    refuseWrong(options);
    refuseWrongHandlers(options.on);
    const [uuids, secrets] = [valuesOf(options, 'uuid'), valuesOf(options, 'signingSecret')];
    if (uuids.length + secrets.length === 0) {
      throw new TypeError(
        'give the uuid of the subscription, its signingSecret, or both; otherwise anybody can send events',
      );
    }
    this.#options = options;
    this.maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
    this.#authorizations = uuids.map((uuid) => `Basic ${Buffer.from(`${uuid}:x`).toString('base64')}`);
    const tolerance = options.toleranceSeconds ?? DEFAULT_TOLERANCE_SECONDS;
    if (secrets.length > 0) this.#signature = signatureCheck(secrets, tolerance);
  }

  /** Checks the method and headers of a request before its body is read. Returns an answer if they are wrong. */
  refuse(method: string | undefined, headers: Headers): Answer | undefined {
    if (method !== 'POST') return answer(405, 'deliveries are POSTed here', { allow: 'POST' });
    const given = textOf(headers.authorization) ?? '';
    const isKnown = this.#authorizations.map((each) => areEqual(each, given)).some(Boolean);
    if (this.#authorizations.length > 0 && !isKnown) {
      return this.#refuseUnproven('the uuid of the delivery is wrong or missing', {
        'www-authenticate': 'Basic',
      });
    }
    if (Number(textOf(headers['content-length'])) > this.maxBytes) return this.tooLarge();
    return undefined;
  }

  tooLarge(): Answer {
    const reason = `the body has more than ${this.maxBytes} bytes; see maxBytes`;
    this.#warn(reason);
    return answer(413, reason);
  }

  /** Reports that the body could not be read to its end, and returns the answer. */
  cut(error: unknown): Answer {
    this.#warn('the body could not be read to its end', error);
    return answer(400, 'the body could not be read to its end; the log of the receiver says more');
  }

  /** Reports that other code has read the body of a delivery, so that its bytes are lost, and returns the answer. */
  alreadyRead(): Answer {
    this.#warn(ALREADY_READ);
    return answer(500, ALREADY_READ);
  }

  /**
   * Checks and handles a delivery that `refuse` has let through, and returns the answer. `body` must be the bytes as
   * received, before anything has parsed them.
   */
  async receive(headers: Headers, body: Uint8Array): Promise<Answer> {
    const id = textOf(headers['webhook-id']);
    const signed = {
      id,
      timestamp: textOf(headers['webhook-timestamp']),
      signature: textOf(headers['webhook-signature']),
    };
    const refusal = this.#signature?.(signed, body, Date.now());
    if (refusal) return this.#refuseUnproven(refusal);
    if (!id) {
      this.#warn(NO_ID);
      return answer(400, NO_ID);
    }
    const delivery = deliveryOf(id, headers);
    let events: ReceivedEvent[];
    try {
      events = eventsIn(body, this.#options.parse);
    } catch (error) {
      report(error, delivery, this.#options.onError);
      return error instanceof NoEvents ? NO_EVENTS : NOT_PARSED;
    }
    return this.#handle(delivery, events);
  }

  /** Reports a delivery without proof that it is from the bus, and returns the answer 401. */
  #refuseUnproven(reason: string, headers?: Record<string, string>): Answer {
    const { onRefused } = this.#options;
    if (onRefused) safely(() => onRefused(reason), 'onRefused');
    else this.#warn(reason);
    return answer(401, reason, headers);
  }

  #warn(reason: string, error?: unknown): void {
    if (Date.now() - (this.#warnedAtMs.get(reason) ?? 0) < WARN_EVERY_MS) return;
    this.#warnedAtMs.set(reason, Date.now());
    // biome-ignore lint/suspicious/noConsole: this package has no log, and a service may set `onRefused` instead
    console.warn(`refused a delivery (said once a minute at most): ${reason}`, ...(error ? [error] : []));
  }

  async #handle(delivery: Delivery, events: ReceivedEvent[]): Promise<Answer> {
    const { store, onError } = this.#options;
    try {
      const claim = await store?.claim(delivery.id);
      if (claim === 'handled') return this.#repeated(delivery);
      if (claim === 'busy') return answer(503, 'this delivery is being handled', RETRY_SOON);
    } catch (error) {
      report(error, delivery, onError);
      return STORE_FAILED;
    }
    let isHandled = false;
    try {
      await this.#work(delivery, events);
      isHandled = true;
      await store?.confirm(delivery.id);
      return ACCEPTED;
    } catch (error) {
      report(error, delivery, onError);
      try {
        await store?.release(delivery.id);
      } catch (failure) {
        report(failure, delivery, onError);
      }
      return isHandled ? STORE_FAILED : HANDLER_FAILED;
    }
  }

  /**
   * Answers a repeat of a delivery that was handled. The repeat may bring a new drop notice, because the bus sends a
   * notice with the next attempt at any batch.
   */
  async #repeated(delivery: Delivery): Promise<Answer> {
    try {
      await this.#tellOfDrops(delivery);
      return ACCEPTED;
    } catch (error) {
      report(error, delivery, this.#options.onError);
      return HANDLER_FAILED;
    }
  }

  async #tellOfDrops(delivery: Delivery): Promise<void> {
    if (delivery.dropped) await this.#options.onDropped?.(delivery.dropped, delivery);
  }

  async #work(delivery: Delivery, events: ReceivedEvent[]): Promise<void> {
    const { bustCache } = this.#options;
    const on: Record<string, Handler | undefined> = this.#options.on;
    await this.#tellOfDrops(delivery);
    if (bustCache) await bustCache([...new Set(events.map(({ url }) => url))]);
    for (const [topic, its] of byTopic(events, on)) {
      if (!on[topic]) this.#warnOfIgnored(its);
      const handled = await on[topic]?.(its, delivery);
      // In JavaScript, a handler may return anything, such as the array of `Promise.all`, which has no `failed`.
      const failed: readonly string[] | undefined = handled?.failed;
      if (failed && failed.length > 0) throw new EventsFailed(topic, failed);
    }
  }

  /**
   * Warns once for each topic without a handler. Otherwise a misspelt topic in `on` would lose events unnoticed,
   * because the bus gets the answer 204. A receiver without any handler wants only `bustCache`, and gets no warning.
   */
  #warnOfIgnored(events: readonly ReceivedEvent[]): void {
    const { on } = this.#options;
    if (Object.getPrototypeOf(on) === Object.prototype && Object.keys(on).length === 0) return;
    for (const { topic } of events) {
      if (this.#ignoredTopics.has(topic)) continue;
      this.#ignoredTopics.add(topic);
      // biome-ignore lint/suspicious/noConsole: this package has no logger; a service with a handler `*` gets no warning
      console.warn(
        `ignored events of the topic ${topic} (said once): it has no handler in \`on\`; a handler '*' gets such events`,
      );
    }
  }
}

/** Thrown if a handler has returned the ids of events that it could not handle. */
export class EventsFailed extends Error {
  readonly topic: string;
  readonly ids: readonly string[];

  constructor(topic: string, ids: readonly string[]) {
    super(`the handler of ${topic} could not handle ${ids.length} events, such as ${ids[0]}`);
    this.name = 'EventsFailed';
    this.topic = topic;
    this.ids = ids;
  }
}

/** This text has at most 100 characters, because `rtm doctor` shows no more of a receiver's answer. */
const ALREADY_READ =
  'something else has read the body: put the receiver before what does, such as express.json()';
const NO_ID = 'the header webhook-id is missing';
const NOT_PARSED = answer(400, 'the body cannot be parsed as JSON; the log of the receiver says more');
const NO_EVENTS = answer(400, 'the body is JSON, but no array of events');
const ACCEPTED: Answer = { status: 204, headers: {}, body: '' };
const RETRY_SOON = { 'retry-after': String(BUSY_RETRY_SECONDS) };
const HANDLER_FAILED = answer(500, 'a handler failed; the log of the receiver says more');
const STORE_FAILED = answer(503, 'the store of deliveries failed', RETRY_SOON);

function answer(status: number, text: string, headers: Record<string, string> = {}): Answer {
  return { status, headers: { ...headers, 'content-type': 'text/plain; charset=utf-8' }, body: `${text}\n` };
}

function report(error: unknown, delivery: Delivery, onError?: ReceiverOptions['onError']): void {
  const what = `delivery ${delivery.id}`;
  if (onError) safely(() => onError(error, delivery), what);
  else logError(error, what);
}

/**
 * Calls a function that the service has given. If the function throws, or rejects later, the error is only logged: it
 * must not end the process.
 */
function safely(call: () => void, what: string): void {
  const tell = async () => call();
  tell().catch((failure: unknown) => logError(failure, what));
}

function logError(error: unknown, what: string): void {
  // biome-ignore lint/suspicious/noConsole: this package has no log, and a service may set `onError` instead
  console.error(`${what} failed:`, error);
}

function deliveryOf(id: string, headers: Headers): Delivery {
  const attempt = Number(textOf(headers['routemaster-attempt']) ?? 1);
  const gap = textOf(headers['routemaster-gap']);
  return gap === undefined ? { id, attempt } : { id, attempt, dropped: readDropNotice(gap) };
}

/** Returns the events of a body. Throws NoEvents if it is no array of events, and whatever `parse` throws. */
function eventsIn(body: Uint8Array, parse: (text: string) => unknown = JSON.parse): ReceivedEvent[] {
  const events = parse(new TextDecoder().decode(body));
  if (Array.isArray(events) && events.every(isEvent)) return events;
  throw new NoEvents('the body is no array of events, each with a topic');
}

class NoEvents extends TypeError {}

function byTopic(
  events: readonly ReceivedEvent[],
  on: Record<string, Handler | undefined>,
): Map<string, ReceivedEvent[]> {
  const groups = new Map<string, ReceivedEvent[]>();
  for (const event of events) {
    const topic = hasHandler(on, event.topic) ? event.topic : '*';
    const group = groups.get(topic);
    if (group) group.push(event);
    else groups.set(topic, [event]);
  }
  return groups;
}

/**
 * Returns true if `on` has a handler for the topic. `on` may be an object of a class that has handlers as methods.
 * Methods that every object has, such as `constructor`, are no handlers.
 */
function hasHandler(on: Record<string, Handler | undefined>, topic: string): boolean {
  return Boolean(on[topic]) && (Object.hasOwn(on, topic) || !(topic in Object.prototype));
}

function isEvent(value: unknown): value is ReceivedEvent {
  return typeof value === 'object' && value !== null && typeof (value as ReceivedEvent).topic === 'string';
}

/**
 * Throws an error if an option is unknown or of a wrong type, since JavaScript has no compiler to find this. A misspelt
 * `signingSecret` beside a `uuid` would let unsigned deliveries through, and with a `maxBytes` of NaN, bodies could
 * have any length.
 */
function refuseWrong(options: ReceiverOptions): void {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('give the options as an object, such as { uuid, on }');
  for (const [name, value] of Object.entries(options)) {
    const type = Object.hasOwn(OPTIONS, name) && OPTIONS[name as keyof ReceiverOptions];
    if (!type)
      throw new TypeError(`there is no option ${name}; the options are ${Object.keys(OPTIONS).join(', ')}`);
    if (value === undefined || value === null) continue;
    if (type === 'number') refuseWrongNumber(name, value);
    if (type === 'function' && typeof value !== 'function') throw new TypeError(`${name} must be a function`);
    if (type === 'store' && typeof value.claim !== 'function')
      throw new TypeError(
        'store must be an object with claim, confirm and release, such as new MemoryStore()',
      );
  }
}

/** Throws TypeError if `on` is no object, or has a handler that is no function. */
function refuseWrongHandlers(on: unknown): void {
  if (typeof on !== 'object' || on === null)
    throw new TypeError('on must be an object with a function for each topic');
  // Only a plain object is checked. An object of a class may have handlers as methods, and its fields can be anything.
  if (Object.getPrototypeOf(on) !== Object.prototype) return;
  for (const [topic, handler] of Object.entries(on)) {
    if (handler !== undefined && typeof handler !== 'function')
      throw new TypeError(`the handler of ${topic} must be a function`);
  }
}

/**
 * Returns the values of an option. Throws TypeError if the option is undefined or empty, for example because an
 * environment variable is not set: without a value, deliveries would be accepted unchecked.
 */
function valuesOf(options: ReceiverOptions, name: 'uuid' | 'signingSecret'): readonly string[] {
  if (!(name in options)) return [];
  const values = [options[name]].flat();
  const isWhole = values.length > 0 && values.every((value) => typeof value === 'string' && value !== '');
  if (isWhole) return values as string[];
  if (values.some((value) => typeof (value ?? '') !== 'string'))
    throw new TypeError(`${name} must be a text, or a list of texts`);
  throw new TypeError(`${name} has no value; leave it out if deliveries are to be accepted without it`);
}

function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header;
}
