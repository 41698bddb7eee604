import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Authentication } from '../authentication/authentication.ts';
import { allows } from '../authentication/scope.ts';
import type { Caller, ClientCaller } from '../caller.ts';
import { clock } from '../clock.ts';
import type { Config } from '../config.ts';
import type { Dialect } from '../dialect.ts';
import { BusError } from '../errors.ts';
import { CLIENTS, MAX_PUBLISH_BYTES, type Route, route } from '../route.ts';
import { TOPIC_PARAMS, type TopicParams } from '../subscribing/topics_api.ts';
import { isLong, readEvents, readInSteps } from './event_input.ts';
import { publishBody } from './event_schema.ts';
import { idempotency } from './idempotency.ts';
import { readIdempotencyKey } from './idempotency_key.ts';
import { LongPublishes } from './long_publishes.ts';
import type { Outcome, Publication, PublishLimits } from './publication.ts';
import type { Publisher } from './publisher.ts';
import type { RateHeaders, RateLimit } from './rate_limit.ts';
import type { StorageGuard } from './storage_guard.ts';

type KeyLimits = Pick<PublishLimits, 'idempotencyWindowMs' | 'maxClientKeys'>;

interface PublishParts {
  publisher: Pick<Publisher, 'publish'>;
  limits: KeyLimits & Pick<Config, 'maxEventDataBytes'>;
  guard: Pick<StorageGuard, 'check'>;
  authentication: Pick<Authentication, 'confirm'>;
  rateLimit?: RateLimit | undefined;
  dialect: Pick<Dialect, 'published' | 'events'>;
  /** Makes the steps of parsing a long body wait for their turn. */
  budget: Budget;
}

interface Budget {
  turn(owner: string): Promise<void> | undefined;
}

interface PublishCall {
  caller: ClientCaller;
  params: TopicParams;
  headers: IncomingHttpHeaders;
  request: IncomingMessage;
  text: string;
}

/** `POST /topics/:name`. */
export function publishApi(parts: PublishParts): Route[] {
  const { refuseEarly, publish } = handlers(parts);
  return [
    route('POST /topics/:name', CLIENTS, {
      params: TOPIC_PARAMS,
      takesText: true,
      textSchema: publishBody(parts.dialect.events),
      maxBodyBytes: MAX_PUBLISH_BYTES,
      isFrequent: true,
      // One of these, as the dialect says.
      answers: { [parts.dialect.published]: null } as { 200: null; 204: null },
      errors: [
        'bad_topic',
        'bad_event',
        'topic_claimed',
        'limit_reached',
        'idempotency_key_reused',
        'too_many_keys',
        'rate_limited',
        'storage_full',
      ],
      refuseEarly,
      handle: publish,
    }),
  ];
}

function handlers(parts: PublishParts) {
  const { publisher, limits, guard, authentication, rateLimit, budget, dialect } = parts;
  const rules = { maxEventDataBytes: limits.maxEventDataBytes, ...dialect.events };
  const stored = { status: dialect.published };
  const longPublishes = new LongPublishes();
  return {
    /** Throws forbidden, rate_limited, bad_header or storage_full. */
    refuseEarly({ caller, params, headers }: Omit<PublishCall, 'text' | 'request'>) {
      refuseUnlessAllowed(caller, params.name);
      rateLimit?.check(caller.token);
      keyIn(headers);
      return guard.check();
    },

    /** Stores the events of a body. Resolves when the batch of every subscriber of the topic has them. */
    async publish(call: PublishCall) {
      return isLong(call) ? longPublishes.run(call.caller.token, () => store(call)) : store(call);
    },
  };

  async function store({ caller, params: { name: topic }, headers, request, text }: PublishCall) {
    const client = caller.token;
    const key = keyIn(headers);
    let rates: RateHeaders | undefined = await rateLimit?.admit(client, Buffer.byteLength(text));
    const isNdjson = headers['content-type']?.startsWith('application/x-ndjson') ?? false;
    const body = { text, isNdjson, topic, nowMs: clock.wallMs(), limits: rules };
    const events = isLong(body) ? await inTurns(readInSteps(body), client, budget) : readEvents(body);
    // It may have waited for seconds behind others of its client, which may have been removed or limited meanwhile.
    if (isLong(body)) refuseUnlessAllowed(await authentication.confirm(request, caller, false), topic);
    if (events.length > 1) rates = await rateLimit?.chargeRest(client, events.length);
    const publication: Publication = { topic, client, events };
    if (key !== undefined) publication.idempotency = idempotency(client, key, topic, text);
    const outcome = await publisher.publish(publication);
    refuseUnlessStored(outcome, topic, limits);
    if (outcome !== 'repeated') return rates ? { ...stored, headers: { ...rates } } : stored;
    return { ...stored, headers: { ...rates, 'Idempotent-Replayed': 'true' } };
  }
}

function refuseUnlessAllowed(caller: Caller, topic: string): void {
  const scopes = caller.role === 'client' ? caller.scopes : undefined;
  if (!allows(scopes?.publish, topic))
    throw new BusError('forbidden', `this client may not publish to ${topic}`);
}

async function inTurns<T>(steps: Generator<void, T>, client: string, budget: Budget): Promise<T> {
  let step = steps.next();
  for (; !step.done; step = steps.next()) await budget.turn(client);
  return step.value;
}

function keyIn(headers: IncomingHttpHeaders): string | undefined {
  return readIdempotencyKey(headers['idempotency-key'] as string | undefined);
}

function refuseUnlessStored(outcome: Outcome, topic: string, limits: KeyLimits): void {
  if (outcome === 'no_room')
    throw new BusError(
      'limit_reached',
      `the bus has no room for more topics, and none is called ${topic}; delete some, or have ROUTEMASTER_MAX_TOPICS raised`,
    );
  if (outcome === 'owns_too_many')
    throw new BusError(
      'limit_reached',
      'this client owns as many topics as it may; delete some, or have ROUTEMASTER_MAX_CLIENT_TOPICS raised',
    );
  if (outcome === 'claimed_by_other')
    throw new BusError(
      'topic_claimed',
      `another client publishes to ${topic}; choose another topic, or have that client or root delete it`,
    );
  if (outcome === 'too_many_keys') {
    const seconds = Math.ceil(limits.idempotencyWindowMs / limits.maxClientKeys / 1000);
    throw new BusError(
      'too_many_keys',
      `this client used more Idempotency-Keys than it may; nothing was stored. Try again in ${seconds} s, and publish more events at a time`,
      { headers: { 'Retry-After': String(seconds) } },
    );
  }
  if (outcome === 'key_reused')
    throw new BusError(
      'idempotency_key_reused',
      'something else was published under this Idempotency-Key a while ago; send a key again only with the same topic and body',
    );
}
