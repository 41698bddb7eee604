import { z } from 'zod';
import { ATTEMPT } from '../delivering/attempt_report.ts';
import type { DeadLetters } from '../delivering/dead_letters/dead_letters.ts';
import { BusError, subscriberNotFound } from '../errors.ts';
import { type Caller, type ChangingCaller, clientOf } from '../routing/caller.ts';
import { DEFAULT_LISTED, nextLink } from '../routing/paging.ts';
import { ENTRIES_PER_CALL } from '../routing/picking.ts';
import { badParameter, clientNamed } from '../routing/query.ts';
import { ALL, BOTH, NO_CONTENT, NOTHING, ok, type Route, route } from '../routing/route.ts';
import {
  type AskedSubscribersParts,
  ownSubscribers,
  subscribersAsked,
  subscribersOf,
  withOwners,
} from '../subscribing/asked_subscribers.ts';
import type { Subscribers } from '../subscribing/subscriber.ts';
import { DEAD_LETTER, deadLetterOf, wholeLetterJson } from './dead_letter.ts';
import { DEAD_LETTER_PARAMS, PAGE, WHAT, WHOSE } from './dead_letter_queries.ts';
import type { Deliveries } from './deliveries.ts';
import type { Delivery } from './delivery.ts';

/**
 * The rate limit counts a listing of dead letters as one call, and as one more for each 20 subscribers (this number)
 * that it covers. A client and each of its joins are one subscriber each.
 */
const SUBSCRIBERS_PER_CALL = 20;

const WHOLE_DEAD_LETTER = DEAD_LETTER.extend({
  history: z.array(ATTEMPT).describe('The first failed attempt and the last 19.'),
  events: z.array(z.looseObject({})).describe('As they would have been delivered.'),
});
const RETRIED = z.object({ retried: z.int().describe('How many.') });
const PURGED = z.object({ purged: z.int().describe('How many.') });

interface DeadLettersParts extends AskedSubscribersParts {
  deliveries: Deliveries;
  deadLetters: DeadLetters;
  subscribers: Pick<Subscribers, 'has' | 'owners'>;
  /**
   * Throws if memory is short: retried batches would take more memory, and the job `autodrop` would then drop other
   * batches.
   */
  guard: { checkSubscriber(token: string): Promise<void> | undefined };
}

/**
 * The calls under `/dead_letters`. Clients see and change their own dead letters, root sees and changes all, and
 * viewers see all.
 */
export function deadLettersApi(parts: DeadLettersParts): Route[] {
  const { deliveries, deadLetters, subscribers, guard } = parts;
  /**
   * Throws join_not_found if the caller names a join that does not exist, and subscriber_not_found if root names a
   * subscriber that does not exist. If there are several tokens, they are those of a client and its joins. They need no
   * check, because they were just read from Redis.
   */
  const check = async (caller: ChangingCaller, tokens: readonly string[], join: string | undefined) => {
    if (tokens.length > 1 || (caller.role === 'client' && join === undefined)) return;
    if (await subscribers.has(tokens[0] ?? '')) return;
    if (join !== undefined) throw new BusError('join_not_found', `there is no join ${join}`);
    throw subscriberNotFound();
  };
  const find = async (caller: Caller, id: string): Promise<Delivery> => {
    const { delivery } = await deliveries.find(id, await ownSubscribers(parts, caller), 'dead');
    if (!isComplete(delivery)) throw notFound();
    return delivery;
  };
  return [
    route('GET /dead_letters', ALL, {
      query: PAGE,
      answers: { 200: z.array(DEAD_LETTER) },
      async handle({ caller, path, query }) {
        const { limit, before, ...asked } = query;
        const { reason, since: sinceMs, until: untilMs } = asked;
        const { tokens, priceInCalls } = await subscribersAsked(parts, caller, query, WHAT);
        const wanted = { tokens, state: 'dead', reason, sinceMs, untilMs, after: before };
        const page = await deliveries.list(wanted, limit ?? DEFAULT_LISTED);
        const letters = page.deliveries.filter(isComplete).map(deadLetterOf);
        const place = page.next && `${page.next.atMs}-${page.next.id}`;
        const looked = reason === undefined ? 0 : page.looked;
        const headers = place === undefined ? place : nextLink(path, { limit, ...asked, before: place });
        return {
          ...ok(await withOwners(parts, caller, letters)),
          headers,
          priceInCalls:
            priceInCalls + (tokens?.length ?? 1) / SUBSCRIBERS_PER_CALL + looked / ENTRIES_PER_CALL,
        };
      },
    }),
    route('DELETE /dead_letters', BOTH, {
      action: 'dead_letters.purge',
      query: WHOSE,
      answers: { 200: PURGED },
      errors: ['subscriber_not_found', 'join_not_found'],
      async handle({ caller, query }) {
        const tokens = await subscribersOf(parts, oneTokenOf(caller, query.subscriber), query.join);
        let purged = 0;
        for (const token of tokens) purged += await deadLetters.purgeAll(token);
        // A subscriber whose removal ended half-way is unknown, but may still have dead letters, which this call
        // deletes. So an unknown subscriber is an error only if nothing was deleted.
        if (purged === 0) await check(caller, tokens, query.join);
        return ok({ purged });
      },
    }),
    route('POST /dead_letters/retry', BOTH, {
      action: 'dead_letters.retry',
      query: WHOSE,
      answers: { 200: RETRIED },
      errors: ['subscriber_not_found', 'join_not_found', 'storage_full'],
      async handle({ caller, query }) {
        const tokens = await subscribersOf(parts, oneTokenOf(caller, query.subscriber), query.join);
        await check(caller, tokens, query.join);
        // All tokens are of one client and its joins, which are in the same partition. So it is enough to check the
        // memory for the first one.
        await guard.checkSubscriber(tokens[0] ?? '');
        let retried = 0;
        for (const token of tokens) retried += await deadLetters.retryAll(token);
        return ok({ retried });
      },
    }),
    route('GET /dead_letters/:id', ALL, {
      params: DEAD_LETTER_PARAMS,
      answers: { 200: WHOLE_DEAD_LETTER },
      errors: ['dead_letter_not_found'],
      async handle({ caller, params: { id } }) {
        const delivery = await find(caller, id);
        const letter = { ...deadLetterOf(delivery), history: delivery.attempts };
        const [shown = letter] = await withOwners(parts, caller, [letter]);
        return ok(wholeLetterJson(shown, deliveries.events(delivery)));
      },
    }),
    route('DELETE /dead_letters/:id', BOTH, {
      action: 'dead_letter.purge',
      params: DEAD_LETTER_PARAMS,
      answers: NOTHING,
      errors: ['dead_letter_not_found'],
      async handle({ caller, params: { id } }) {
        if (!(await deadLetters.purge(id, clientOf(caller)))) throw notFound();
        return NO_CONTENT;
      },
    }),
    route('POST /dead_letters/:id/retry', BOTH, {
      action: 'dead_letter.retry',
      params: DEAD_LETTER_PARAMS,
      answers: NOTHING,
      errors: ['dead_letter_not_found', 'subscriber_not_found', 'storage_full'],
      async handle({ caller, params: { id } }) {
        const letter = await find(caller, id);
        await guard.checkSubscriber(letter.subscriber);
        const outcome = await deadLetters.retry(letter);
        if (outcome === 'dead_letter_not_found') throw notFound();
        if (outcome === 'subscriber_not_found') throw new BusError(outcome, 'its subscriber has left');
        return NO_CONTENT;
      },
    }),
  ];
}

/** False for a dead letter whose time of death is missing in Redis. A sweep will give it one. */
function isComplete(letter: Delivery | undefined): letter is Delivery {
  return letter !== undefined && letter.ended_at !== null;
}

function oneTokenOf(caller: ChangingCaller, subscriber: string | undefined): string {
  const token = clientNamed(caller, subscriber, 'subscriber', `your own ${WHAT} are`);
  if (token !== undefined) return token;
  throw badParameter('subscriber', 'is missing: root must say whose, as ?subscriber=token');
}

function notFound(): BusError {
  return new BusError('dead_letter_not_found', DEAD_LETTER_PARAMS.wording.whole);
}
