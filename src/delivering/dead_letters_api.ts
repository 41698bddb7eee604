import { z } from 'zod';
import type { Caller } from '../caller.ts';
import { BusError } from '../errors.ts';
import { DEFAULT_LISTED, LIMIT, nextLink, PLACE_RULE, QUERY_WORDING } from '../paging.ts';
import type { StorageGuard } from '../publishing/storage_guard.ts';
import { BOTH, type Input, NO_CONTENT, NOTHING, ok, type Route, route } from '../route.ts';
import { DEAD_LETTER, type DeadLetter, type Place } from './dead_letter.ts';
import type { DeadLetters } from './dead_letters.ts';

const subscriberQuery = z.strictObject({
  subscriber: z.string('must be given once').min(1, 'is empty').optional(),
});
const pageQuery = subscriberQuery.extend({
  limit: LIMIT,
  before: z
    .string(PLACE_RULE)
    .regex(/^\d{1,15}-[\w-]{20}$/, PLACE_RULE)
    .transform(readPlace)
    .optional(),
});

type Whose = z.infer<typeof subscriberQuery>;
type Page = z.infer<typeof pageQuery>;
type OfOne = { caller: Caller; params: { id: string } };

const WHOSE: Input<Whose> = { schema: subscriberQuery, wording: QUERY_WORDING };
const PAGE: Input<Page> = { schema: pageQuery, wording: QUERY_WORDING };
const DEAD_LETTER_PARAMS: Input<{ id: string }> = {
  schema: z.object({ id: z.string().regex(/^[\w-]{20}$/) }),
  wording: {
    code: 'dead_letter_not_found',
    whole: 'there is no such dead letter of yours; it may have been retried, purged or dropped',
  },
};
const WHOLE_DEAD_LETTER = DEAD_LETTER.extend({
  history: z.array(z.looseObject({})),
  events: z.array(z.looseObject({})),
});
const RETRIED = z.object({ retried: z.int() });
const PURGED = z.object({ purged: z.int() });

interface DeadLettersParts {
  deadLetters: DeadLetters;
  isSubscriber: (token: string) => Promise<boolean>;
  /** Refuses a retry while memory is short: batches would be dropped instead of dead letters. */
  guard: Pick<StorageGuard, 'check'>;
}

/** `/dead_letters`. A client may see and change its own dead letters, root all of them. */
export function deadLettersApi(parts: DeadLettersParts): Route[] {
  const { list, purgeAll, retryAll, read, purge, retry } = handlers(parts);
  return [
    route('GET /dead_letters', BOTH, {
      query: PAGE,
      answers: { 200: z.array(DEAD_LETTER) },
      errors: ['bad_query'],
      handle: list,
    }),
    route('DELETE /dead_letters', BOTH, {
      query: WHOSE,
      answers: { 200: PURGED },
      errors: ['bad_query', 'subscriber_not_found'],
      handle: purgeAll,
    }),
    route('POST /dead_letters/retry', BOTH, {
      query: WHOSE,
      answers: { 200: RETRIED },
      errors: ['bad_query', 'subscriber_not_found', 'storage_full'],
      handle: retryAll,
    }),
    route('GET /dead_letters/:id', BOTH, {
      params: DEAD_LETTER_PARAMS,
      answers: { 200: WHOLE_DEAD_LETTER },
      errors: ['dead_letter_not_found'],
      handle: read,
    }),
    route('DELETE /dead_letters/:id', BOTH, {
      params: DEAD_LETTER_PARAMS,
      answers: NOTHING,
      errors: ['dead_letter_not_found'],
      handle: purge,
    }),
    route('POST /dead_letters/:id/retry', BOTH, {
      params: DEAD_LETTER_PARAMS,
      answers: NOTHING,
      errors: ['dead_letter_not_found', 'subscriber_not_found', 'storage_full'],
      handle: retry,
    }),
  ];
}

function handlers({ deadLetters, isSubscriber, guard }: DeadLettersParts) {
  /** Only root names the subscriber, so only root can have mistyped it. */
  const check = async (caller: Caller, token: string) => {
    if (caller.role === 'root' && !(await isSubscriber(token)))
      throw new BusError('subscriber_not_found', 'there is no such subscriber');
  };
  return {
    async list({ caller, path, query }: { caller: Caller; path: string; query: Page }) {
      const { subscriber, limit, before } = query;
      const count = limit ?? DEFAULT_LISTED;
      const { letters, next } = await deadLetters.list(tokenOf(caller, subscriber), count, before);
      const headers = next && nextLink(path, { limit, subscriber, before: `${next.diedAtMs}-${next.id}` });
      return { ...ok(letters), headers };
    },

    async retryAll({ caller, query }: { caller: Caller; query: Whose }) {
      const token = oneTokenOf(caller, query.subscriber);
      await check(caller, token);
      await guard.check();
      return ok({ retried: await deadLetters.retryAll(token) });
    },

    async purgeAll({ caller, query }: { caller: Caller; query: Whose }) {
      const token = oneTokenOf(caller, query.subscriber);
      const purged = await deadLetters.purgeAll(token);
      // A subscriber that has left may have letters, if the process that purged them died.
      if (purged === 0) await check(caller, token);
      return ok({ purged });
    },

    async read({ caller, params: { id } }: OfOne) {
      const letter = await deadLetters.find(id, clientOf(caller));
      if (!letter) throw notFound();
      const headers = { 'Content-Type': 'application/json; charset=utf-8' };
      return { ...ok(wholeJson(letter, deadLetters.events(letter))), headers };
    },

    async retry({ caller, params: { id } }: OfOne) {
      await guard.check();
      const outcome = await deadLetters.retry(id, clientOf(caller));
      if (outcome === 'dead_letter_not_found') throw notFound();
      if (outcome === 'subscriber_not_found') throw new BusError(outcome, 'its subscriber has left');
      return NO_CONTENT;
    },

    async purge({ caller, params: { id } }: OfOne) {
      if (!(await deadLetters.purge(id, clientOf(caller)))) throw notFound();
      return NO_CONTENT;
    },
  };
}

/** Returns the subscriber whose letters the request is about; undefined means all (root only). */
function tokenOf(caller: Caller, subscriber: string | undefined): string | undefined {
  if (caller.role === 'root') return subscriber;
  if (subscriber === undefined) return caller.token;
  throw badSubscriber('is for root; leave it out, and your own dead letters are meant');
}

function oneTokenOf(caller: Caller, subscriber: string | undefined): string {
  const token = tokenOf(caller, subscriber);
  if (token !== undefined) return token;
  throw badSubscriber('is missing: root must say whose, as ?subscriber=token');
}

function badSubscriber(rule: string): BusError {
  return new BusError('bad_query', `subscriber ${rule}`, { members: { field: 'subscriber' } });
}

function clientOf(caller: Caller): string | undefined {
  return caller.role === 'client' ? caller.token : undefined;
}

function notFound(): BusError {
  return new BusError('dead_letter_not_found', DEAD_LETTER_PARAMS.wording.whole);
}

function readPlace(text: string): Place {
  const dash = text.indexOf('-');
  return { diedAtMs: Number(text.slice(0, dash)), id: text.slice(dash + 1) };
}

/** Yields a letter and its events as JSON, in pieces, since the events can be hundreds of megabytes. */
async function* wholeJson(letter: DeadLetter, events: AsyncIterable<string>): AsyncGenerator<string> {
  yield `${JSON.stringify(letter).slice(0, -1)},"events":[`;
  let separator = '';
  for await (const event of events) {
    yield separator + event;
    separator = ',';
  }
  yield ']}';
}
