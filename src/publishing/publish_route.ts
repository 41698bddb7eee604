import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authentication } from '../authentication/authentication.ts';
import type { Caller, Role } from '../authentication/caller.ts';
import { DueCount } from '../authentication/due_count.ts';
import { allows } from '../authentication/scope.ts';
import { clock } from '../clock.ts';
import { BusError, StorageUnavailable } from '../errors.ts';
import { Admission, overloaded, type Visit } from '../http/admission.ts';
import { readText } from '../http/body.ts';
import { checkHeaders } from '../http/gate.ts';
import { preparedProblem } from '../http/problems.ts';
import { Turns } from '../http/turns.ts';
import { checkedTopicName, TOPIC_NAME } from '../topic_name.ts';
import { type EventLimits, readEvents } from './event_input.ts';
import { idempotency } from './idempotency.ts';
import { readIdempotencyKey } from './idempotency_key.ts';
import type { Outcome, Publication } from './publication.ts';
import type { Publisher } from './publisher.ts';
import type { RateHeaders, RateLimit } from './rate_limit.ts';
import type { StorageGuard } from './storage_guard.ts';

export interface PublishingParts {
  authentication: Authentication;
  publisher: Publisher;
  limits: EventLimits;
  guard: StorageGuard;
  /** Undefined where nothing is limited. */
  rateLimit?: RateLimit | undefined;
}

type Client = Extract<Caller, { role: 'client' }>;

/** Called with what is to be answered in place of 204. */
type Fail = (error: unknown) => void;

const PATH = '/topics/';
/** Characters: what is longer takes as long as the refusal of several others. */
const LONG_BODY = 4096;
const CLIENT: readonly Role[] = ['client'];

const refuse = preparedProblem(overloaded());

/** The topic of a publish that says it plainly; undefined for all else, such as a name with percent signs in it. */
export function plainTopic({ method, url }: IncomingMessage): string | undefined {
  if (method !== 'POST' || !url?.startsWith(PATH)) return undefined;
  const topic = url.slice(PATH.length);
  return TOPIC_NAME.test(topic) ? topic : undefined;
}

/** `POST /topics/:name`. */
export class Publishing {
  readonly #parts: PublishingParts;
  readonly #admission: Admission;
  readonly #turns = new Turns();

  constructor(parts: PublishingParts, admission = new Admission()) {
    this.#parts = parts;
    this.#admission = admission;
  }

  /**
   * Answers 204 when the events are in the batch of every subscriber of the topic, and only then. Throws, or calls `fail` with,
   * what is to be answered otherwise.
   */
  take(request: IncomingMessage, response: ServerResponse, name: string, fail: Fail): void {
    // Before authentication, which is half of the work. Only who is known takes room: a stranger could hold all of it.
    if (!this.#admission.hasRoom(request)) return void refuse(response);
    checkHeaders(request);
    this.#parts.authentication.identify(request, CLIENT, this.#isCheap(request), (error, caller, count) => {
      if (caller?.role !== 'client') return void fail(error);
      const due = count && new DueCount(count, (each) => this.#parts.authentication.take(each));
      due?.takeUnlessWhole(request);
      void this.#publish(request, response, name, caller, due, fail);
    });
  }

  /**
   * Whether the count of a Digest may be taken by the call that stores the events: one call for two. What was recorded and is sent
   * again costs us some work then, and is not to cost anybody's rate.
   */
  #isCheap({ headers }: IncomingMessage): boolean {
    return this.#parts.rateLimit === undefined && Number(headers['content-length']) <= LONG_BODY;
  }

  /**
   * Takes the count also of what is refused on its way to Redis, or fails: or else whoever has recorded it could have it stored
   * when it is not.
   */
  #afterCount(request: IncomingMessage, caller: Client, due: DueCount, fail: Fail): Fail {
    const { authentication } = this.#parts;
    return (error) => {
      // Where the call failed on its way it may have taken the count: that it was taken tells nothing then.
      const isSure = error instanceof BusError && !(error instanceof StorageUnavailable);
      due.take().then(
        (isNew) =>
          isNew || !isSure ? fail(error) : authentication.repeated(request, caller).then(fail, fail),
        () => fail(error),
      );
    };
  }

  async #publish(
    request: IncomingMessage,
    response: ServerResponse,
    name: string,
    caller: Client,
    due: DueCount | undefined,
    fail: Fail,
  ): Promise<void> {
    let refuse = due ? this.#afterCount(request, caller, due, fail) : fail;
    let visit: Visit | undefined;
    try {
      const { token: client, scopes } = caller;
      const topic = checkedTopicName(name);
      if (!allows(scopes?.publish, topic))
        throw new BusError('forbidden', `this client may not publish to ${topic}`);
      const { authentication, rateLimit, guard, limits, publisher } = this.#parts;
      rateLimit?.check(client);
      visit = this.#admission.enter(request);
      const mayBeFull = guard.check();
      if (mayBeFull) await mayBeFull;
      const { headers } = request;
      const key = readIdempotencyKey(headers['idempotency-key'] as string | undefined);
      const body = await readText(request, visit);
      visit.work();
      const turn = body.length > LONG_BODY ? this.#turns.next() : undefined;
      if (turn) await turn;
      const ndjson = headers['content-type']?.startsWith('application/x-ndjson') ?? false;
      const events = readEvents(body, ndjson, topic, clock.wallMs(), limits);
      let rates: RateHeaders | undefined;
      if (rateLimit)
        rates = await rateLimit.spend({ client, events: events.length, bytes: Buffer.byteLength(body) });
      const publication: Publication = { topic, client, events };
      if (key !== undefined) publication.idempotency = idempotency(client, key, topic, body);
      const isCopy = due && !(await due.take());
      // The count is taken, whatever else becomes of it.
      refuse = fail;
      if (isCopy) throw await authentication.repeated(request, caller);
      const outcome = await publisher.publish(publication);
      refuseUnlessStored(outcome, topic);
      if (outcome === 'repeated') response.setHeader('Idempotent-Replayed', 'true');
      response.writeHead(204, rates as Record<string, string> | undefined).end();
    } catch (error) {
      refuse(error);
    } finally {
      visit?.leave();
    }
  }
}

function refuseUnlessStored(outcome: Outcome, topic: string): void {
  if (outcome === 'no_room')
    throw new BusError(
      'limit_reached',
      `the bus has no room for more topics, and none is called ${topic}; delete some, or have ROUTEMASTER_MAX_TOPICS raised`,
    );
  if (outcome === 'claimed_by_other')
    throw new BusError(
      'topic_claimed',
      `another client publishes to ${topic}; choose another topic, or have that client or root delete it`,
    );
  if (outcome === 'key_reused')
    throw new BusError(
      'idempotency_key_reused',
      'something else was published under this Idempotency-Key a while ago; send a key again only with the same topic and body',
    );
}
