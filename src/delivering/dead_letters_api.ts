import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Request, type RequestHandler, Router } from 'express';
import { z } from 'zod';
import type { Authentication } from '../authentication/authentication.ts';
import { type Caller, callerOf } from '../authentication/caller.ts';
import { BusError } from '../errors.ts';
import { onlyMethods } from '../http/problems.ts';
import type { StorageGuard } from '../publishing/storage_guard.ts';
import type { DeadLetter, Place } from './dead_letter.ts';
import type { DeadLetters } from './dead_letters.ts';

const MOST_LISTED = 1000;
const LISTED = 100;
const ID = /^[\w-]{20}$/;

const LIMIT_RULE = `must be a whole number from 1 to ${MOST_LISTED}`;
const BEFORE_RULE = 'must be what the Link header of the page before gives';

const WHOSE = z.strictObject({ subscriber: z.string('must be given once').min(1, 'is empty').optional() });
const PAGE = WHOSE.extend({
  limit: z
    .string(LIMIT_RULE)
    .regex(/^\d{1,4}$/, LIMIT_RULE)
    .transform(Number)
    .pipe(z.number().min(1, LIMIT_RULE).max(MOST_LISTED, LIMIT_RULE))
    .default(LISTED),
  before: z
    .string(BEFORE_RULE)
    .regex(/^\d{1,15}-[\w-]{20}$/, BEFORE_RULE)
    .transform(readPlace)
    .optional(),
});

export interface DeadLettersParts {
  authentication: Authentication;
  deadLetters: DeadLetters;
  /** Asked before letters are retried: they are the first to be dropped, and batches would go in their place. */
  guard: Pick<StorageGuard, 'check'>;
}

type Handler = RequestHandler<{ id: string }>;

/** `/dead_letters`: list, read, retry, purge. A client has its own only, root all. */
export function deadLettersApi({ authentication, deadLetters, guard }: DeadLettersParts): Router {
  const either = authentication.require('client', 'root');
  const router = Router({ strict: true, caseSensitive: true });

  const list: RequestHandler = async (request, response) => {
    const { subscriber, limit, before } = readQuery(PAGE, request);
    const { letters, next } = await deadLetters.list(whose(request, subscriber), limit, before);
    if (next) response.set('Link', `<${nextPage(request, next)}>; rel="next"`);
    response.json(letters);
  };
  const retryAll: RequestHandler = async (request, response) => {
    const token = oneSubscriber(request);
    await guard.check();
    response.json({ retried: await deadLetters.retryAll(token) });
  };
  const purgeAll: RequestHandler = async (request, response) => {
    response.json({ purged: await deadLetters.purgeAll(oneSubscriber(request)) });
  };
  const read: Handler = async (request, response) => {
    const letter = await deadLetters.find(idOf(request), clientOf(callerOf(request)));
    if (!letter) throw notFound();
    response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8' });
    const json = Readable.from(wholeJson(letter, deadLetters.events(letter)));
    await pipeline(json, response).catch((error: NodeJS.ErrnoException) => {
      // The caller has gone.
      if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
    });
  };
  const retry: Handler = async (request, response) => {
    await guard.check();
    const outcome = await deadLetters.retry(idOf(request), clientOf(callerOf(request)));
    if (outcome === 'dead_letter_not_found') throw notFound();
    if (outcome === 'subscriber_not_found') throw new BusError(outcome, 'its subscriber has left');
    response.writeHead(204).end();
  };
  const purge: Handler = async (request, response) => {
    if (!(await deadLetters.purge(idOf(request), clientOf(callerOf(request))))) throw notFound();
    response.writeHead(204).end();
  };

  router.route('/dead_letters').get(either, list).delete(either, purgeAll).all(onlyMethods('GET', 'DELETE'));
  router.route('/dead_letters/retry').post(either, retryAll).all(onlyMethods('POST'));
  router.route('/dead_letters/:id').get(either, read).delete(either, purge).all(onlyMethods('GET', 'DELETE'));
  router.route('/dead_letters/:id/retry').post(either, retry).all(onlyMethods('POST'));
  return router;
}

/** Throws bad_query, with the `field`. */
function readQuery<T>(schema: z.ZodType<T>, request: Request): T {
  const read = schema.safeParse(request.query);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  if (unknown !== undefined) throw badQuery(unknown, 'is nothing that can be asked for here');
  throw badQuery(issue?.path.join('.') ?? '', issue?.message ?? '');
}

function badQuery(field: string, rule: string): BusError {
  return new BusError('bad_query', `${field} ${rule}`, { members: { field } });
}

/** Whose letters are meant: a client's own; those of whom root names, or all. */
function whose(request: Request, subscriber: string | undefined): string | undefined {
  const client = clientOf(callerOf(request));
  if (client !== undefined && subscriber !== undefined) {
    throw badQuery('subscriber', 'is for root; leave it out, and your own dead letters are meant');
  }
  return client ?? subscriber;
}

function oneSubscriber(request: Request): string {
  const token = whose(request, readQuery(WHOSE, request).subscriber);
  if (token === undefined)
    throw badQuery('subscriber', 'is missing: root must say whose, as ?subscriber=token');
  return token;
}

/** Undefined for root. */
function clientOf(caller: Caller): string | undefined {
  return caller.role === 'client' ? caller.token : undefined;
}

function idOf(request: Request<{ id: string }>): string {
  if (ID.test(request.params.id)) return request.params.id;
  throw notFound();
}

function notFound(): BusError {
  const detail = 'there is no such dead letter of yours; it may have been retried, purged or dropped';
  return new BusError('dead_letter_not_found', detail);
}

function readPlace(text: string): Place {
  const dash = text.indexOf('-');
  return { diedAtMs: Number(text.slice(0, dash)), id: text.slice(dash + 1) };
}

function nextPage(request: Request, { diedAtMs, id }: Place): string {
  const query = new URLSearchParams(request.query as Record<string, string>);
  query.set('before', `${diedAtMs}-${id}`);
  return `${request.path}?${query}`;
}

/** The letter with its events, bit by bit. */
async function* wholeJson(letter: DeadLetter, events: AsyncIterable<string>): AsyncGenerator<string> {
  yield `${JSON.stringify(letter).slice(0, -1)},"events":[`;
  let separator = '';
  for await (const event of events) {
    yield separator + event;
    separator = ',';
  }
  yield ']}';
}
