import { z } from 'zod';
import type { DeathReason } from '../delivering/settlement.ts';
import { BusError } from '../errors.ts';
import { UID } from '../ids.ts';
import { DEFAULT_LISTED, LIMIT, nextLink, TIME } from '../routing/paging.ts';
import { parameters } from '../routing/query.ts';
import { ALL, BOTH, type Input, NO_CONTENT, NOTHING, ok, type Route, route } from '../routing/route.ts';
import { oneOf } from '../routing/schemas.ts';
import {
  type AskedSubscribersParts,
  askedFields,
  ownSubscribers,
  subscribersAsked,
  withOwners,
} from '../subscribing/asked_subscribers.ts';
import type { Deliveries } from './deliveries.ts';
import { DELIVERY, STATES, WAIT } from './delivery.ts';
import { before } from './place.ts';
import { wholeJson } from './whole_delivery.ts';

/** Looking at this many batches counts as one call in the rate limit, and takes Redis a quarter of a ms. */
const LOOKED_PER_CALL = 100;
/** Searching this many records of the delivery log counts as one call in the rate limit, and takes Redis 0.3 ms. */
const SEARCHED_PER_CALL = 10_000;

const WHAT = 'batches';

const PAGE = parameters({
  ...askedFields(WHAT),
  state: oneOf(STATES).optional(),
  since: TIME.describe(
    'Only what ended, or was opened if it has not ended, from this time on (ms since 1970).',
  ),
  until: TIME.describe(
    'Only what ended, or was opened if it has not ended, before this time (ms since 1970).',
  ),
  limit: LIMIT,
  before: before(/\d{1,15}\.\d{3}/),
});

const PARAMS: Input<{ id: string }> = {
  schema: z.object({ id: z.string().regex(UID).describe('The id of the batch.') }),
  wording: {
    code: 'delivery_not_found',
    whole: 'there is no such batch of yours, and no record of one; records are kept for a day at most',
  },
};
/**
 * A batch with its events. If the batch was accepted or dropped, its events are gone, and the field `events` is
 * missing. The fields of WAIT are there only if the batch waits for an attempt.
 */
const WHOLE_DELIVERY = DELIVERY.extend({
  ...WAIT.partial().shape,
  events: z.array(z.looseObject({})).optional().describe('As they are delivered.'),
});
export type WholeDelivery = z.infer<typeof WHOLE_DELIVERY>;

const NOT_QUEUED = 'there is no such batch of yours that is queued';
const NOT_WAITING = {
  delivery_not_waiting: 'this batch is under way, or tried as soon as a worker is free for it',
  delivery_paused: 'its subscriber is paused; resume the subscriber first',
};

interface BurialRecorder {
  /** Counts events that left the queue of a subscriber. */
  removed(subscriber: string, events: number): void;
  /** Counts a new dead letter and its events. */
  buried(subscriber: string, reason: DeathReason, events: number): void;
}

interface DeliveriesParts extends AskedSubscribersParts {
  deliveries: Deliveries;
  recorder: BurialRecorder;
}

/**
 * `/deliveries`: shows batches and their states, retries a waiting batch at once, and buries one. Clients see and
 * change their own batches, root all of them; viewers see all.
 */
export function deliveriesApi(parts: DeliveriesParts): Route[] {
  const { deliveries, recorder } = parts;
  return [
    route('GET /deliveries', ALL, {
      query: PAGE,
      answers: { 200: z.array(DELIVERY) },
      async handle({ caller, path, query }) {
        const { limit, before, ...asked } = query;
        const { tokens, priceInCalls } = await subscribersAsked(parts, caller, asked, WHAT);
        const { state, since, until } = asked;
        const wanted = { tokens, state, sinceMs: since, untilMs: until, after: before };
        const page = await deliveries.list(wanted, limit ?? DEFAULT_LISTED);
        const place = page.next && `${page.next.atMs.toFixed(3)}-${page.next.id}`;
        return {
          ...ok(await withOwners(parts, caller, page.deliveries)),
          headers: place === undefined ? place : nextLink(path, { ...asked, limit, before: place }),
          priceInCalls: priceInCalls + page.looked / LOOKED_PER_CALL,
        };
      },
    }),
    route('GET /deliveries/:id', ALL, {
      params: PARAMS,
      answers: { 200: WHOLE_DELIVERY },
      errors: ['delivery_not_found'],
      async handle({ caller, params: { id } }) {
        const { delivery, wait, looked } = await deliveries.find(id, await ownSubscribers(parts, caller));
        const priceInCalls = looked / SEARCHED_PER_CALL;
        if (!delivery) throw new BusError('delivery_not_found', PARAMS.wording.whole, { priceInCalls });
        const [shown = delivery] = await withOwners(parts, caller, [delivery]);
        if (delivery.state === 'taken' || delivery.state === 'dropped') return { ...ok(shown), priceInCalls };
        const pieces = wholeJson({ ...shown, ...wait }, deliveries.events(delivery));
        return { ...ok(pieces), priceInCalls };
      },
    }),
    route('POST /deliveries/:id/retry', BOTH, {
      action: 'delivery.retry',
      params: PARAMS,
      answers: NOTHING,
      errors: ['delivery_not_found', 'delivery_not_waiting'],
      async handle({ caller, params: { id } }) {
        const outcome = await deliveries.retry(id, await ownSubscribers(parts, caller));
        if (outcome === 'delivery_not_found')
          throw new BusError(outcome, `${NOT_QUEUED}; if it is a dead letter, retry it as such`);
        if (outcome !== 'ok') throw new BusError('delivery_not_waiting', NOT_WAITING[outcome]);
        return NO_CONTENT;
      },
    }),
    route('POST /deliveries/:id/bury', BOTH, {
      action: 'delivery.bury',
      params: PARAMS,
      answers: NOTHING,
      errors: ['delivery_not_found', 'delivery_not_waiting'],
      async handle({ caller, params: { id } }) {
        const { outcome, token, events } = await deliveries.bury(id, await ownSubscribers(parts, caller));
        if (outcome === 'delivery_not_found')
          throw new BusError(outcome, `${NOT_QUEUED}; it may be a dead letter already`);
        if (outcome !== 'ok') throw new BusError(outcome, NOT_WAITING[outcome]);
        if (token !== undefined && events > 0) {
          recorder.removed(token, events);
          recorder.buried(token, 'buried', events);
        }
        return NO_CONTENT;
      },
    }),
  ];
}
