import type { IncomingHttpHeaders } from 'node:http';
import { allows, mayNotPublish } from '../authentication/scope.ts';
import type { Config } from '../config.ts';
import type { Caller, ClientCaller } from '../routing/caller.ts';
import type { Dialect } from '../routing/dialect.ts';
import { OwnerLimit } from '../routing/owner_limit.ts';
import { type Call, CLIENTS, MAX_PUBLISH_BYTES, type Route, route } from '../routing/route.ts';
import type { Partitions } from '../store/partitions.ts';
import type { RedisTimes } from '../store/redis_times.ts';
import { TOPIC_PARAMS, type TopicParams } from '../subscribing/topics_api.ts';
import { isLong, readEvents, readInSteps } from './event_input.ts';
import { publishBody } from './event_schema.ts';
import { idempotency, readIdempotencyKey } from './idempotency.ts';
import type { Publication, TimedOutcome, TimedPublication } from './publication.ts';
import type { Publisher } from './publisher.ts';
import type { RateHeaders, RateLimit } from './rate_limit.ts';
import { type RefusalLimits, refusal } from './refusals.ts';
import type { StorageGuard } from './storage_guard.ts';

/**
 * Maximum long publishes (bodies over 65,536 characters) of a client that are parsed and stored at a time. Further ones
 * wait unparsed. Without this limit, 128 bodies of 350 KB with tiny events took 1.5 GB when they were parsed.
 */
const MAX_LONG_PUBLISHES = 8;
/**
 * Maximum short publishes (bodies up to 65,536 characters) of a client that are parsed and stored at a time. Without
 * this limit, a client with 100 connections had 400 publishes under way, and a publish of another client waited until
 * all 400 were answered.
 */
const MAX_SHORT_PUBLISHES = 64;
const NDJSON = /^application\/x-ndjson/i;

interface PublishParts {
  partitions: Pick<Partitions, 'ofTopic'>;
  times: Pick<RedisTimes, 'nowMs'>;
  publisher: Pick<Publisher, 'publish'>;
  delaying: { publish(publication: TimedPublication): Promise<TimedOutcome> };
  limits: RefusalLimits & Pick<Config, 'maxEventDataBytes'>;
  guard: Pick<StorageGuard, 'checkTopic'>;
  rateLimit?: RateLimit | undefined;
  dialect: Pick<Dialect, 'published' | 'events'>;
  /** Spreads the parsing of a long body over time, so that other requests are served in between. */
  budget: Budget;
}

interface Budget {
  whenFree(owner: string): Promise<void>;
}

interface PublishCall extends Pick<Call, 'headers' | 'isLate' | 'judgeAgain' | 'text'> {
  caller: ClientCaller;
  params: TopicParams;
}

/** `POST /topics/:name`: publishes events to a topic. */
export function publishApi(parts: PublishParts): Route[] {
  const { partitions, times, publisher, delaying, limits, guard, rateLimit, budget, dialect } = parts;
  const rules = { maxEventDataBytes: limits.maxEventDataBytes, ...dialect.events };
  const stored = { status: dialect.published };
  const longPublishes = new OwnerLimit(MAX_LONG_PUBLISHES);
  const shortPublishes = new OwnerLimit(MAX_SHORT_PUBLISHES);
  return [
    route('POST /topics/:name', CLIENTS, {
      params: TOPIC_PARAMS,
      takesText: true,
      textSchema: publishBody(dialect.events),
      maxBodyBytes: MAX_PUBLISH_BYTES,
      isFrequent: true,
      answers: { [dialect.published]: null } as { 200: null; 204: null },
      errors: [
        'bad_topic',
        'bad_event',
        'topic_claimed',
        'already_delayed',
        'limit_reached',
        'idempotency_key_reused',
        'too_many_keys',
        'rate_limited',
        'storage_full',
      ],
      /** Throws forbidden, rate_limited, bad_header or storage_full before the body is read. */
      refuseEarly({ caller, params, headers }) {
        refuseUnlessAllowed(caller, params.name);
        rateLimit?.check(caller.token);
        keyIn(headers);
        return guard.checkTopic(params.name);
      },
      /**
       * Publishes the events of a body. Resolves when Redis has stored them. An event with `at` or `delay` is stored
       * until it is due. Any other event is stored for all subscribers of the topic.
       */
      handle(call) {
        const limit = isLong(call) ? longPublishes : shortPublishes;
        return limit.run(call.caller.token, () => store(call));
      },
    }),
  ];

  async function store({ caller, params: { name: topic }, headers, isLate, judgeAgain, text }: PublishCall) {
    const client = caller.token;
    const key = keyIn(headers);
    let rates: RateHeaders | undefined;
    if (rateLimit) rates = await rateLimit.admit(client, Buffer.byteLength(text));
    const isNdjson = NDJSON.test(headers['content-type'] ?? '');
    const nowMs = await times.nowMs(partitions.ofTopic(topic));
    const body = { text, isNdjson, topic, nowMs, limits: rules };
    const events = isLong(body) ? await runSteps(readInSteps(body), client, budget) : readEvents(body);
    // While the body came slowly, or while a long publish waited behind other publishes of this client, the client may
    // have been removed, or its scopes narrowed. So check again whether the client may publish.
    if (isLate || isLong(body)) refuseUnlessAllowed(await judgeAgain('cache'), topic);
    // Before the body was parsed, the rate limit counted its bytes and one event. The other events are counted now.
    if (rateLimit && events.length > 1) rates = await rateLimit.charge(client, events.length - 1, 0);
    const publication: TimedPublication = { topic, client, events };
    if (key !== undefined) publication.idempotency = idempotency(client, key, topic, text);
    const result: TimedOutcome = isUntimed(publication)
      ? { outcome: await publisher.publish(publication) }
      : await delaying.publish(publication);
    const refused = refusal(result, topic, limits);
    if (refused) throw refused;
    if (result.outcome !== 'repeated') return rates ? { ...stored, headers: { ...rates } } : stored;
    return { ...stored, headers: { ...rates, 'Idempotent-Replayed': 'true' } };
  }
}

function isUntimed(publication: TimedPublication): publication is Publication {
  return publication.events.every((event) => typeof event === 'string');
}

function refuseUnlessAllowed(caller: Caller, topic: string): void {
  const scopes = caller.role === 'client' ? caller.scopes : undefined;
  if (!allows(scopes?.publish, topic)) throw mayNotPublish(topic);
}

async function runSteps<T>(steps: Generator<void, T>, client: string, budget: Budget): Promise<T> {
  let step = steps.next();
  for (; !step.done; step = steps.next()) await budget.whenFree(client);
  return step.value;
}

function keyIn(headers: IncomingHttpHeaders): string | undefined {
  return readIdempotencyKey(headers['idempotency-key'] as string | undefined);
}
