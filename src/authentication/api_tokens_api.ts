import { z } from 'zod';
import { slicesOf } from '../chunks.ts';
import type { Config } from '../config.ts';
import { BusError } from '../errors.ts';
import type { Caller, Scopes } from '../routing/caller.ts';
import { listed } from '../routing/listing.ts';
import { PAGE_FIELDS, type Pages } from '../routing/paging.ts';
import { parameters, sought } from '../routing/query.ts';
import { type Input, NO_CONTENT, NOTHING, ok, ROOT, type Route, route, WATCHERS } from '../routing/route.ts';
import { NAMED } from '../routing/schemas.ts';
import { type Clients, placeOf, type TokenAndName } from './client.ts';
import {
  type ClientDialect,
  clientWording,
  LIMITS_INPUT,
  newClientInput,
  TOKEN_RULE,
} from './client_input.ts';
import { CLIENT_TOKEN } from './client_token.ts';
import type { Credentials } from './credentials.ts';
import type { PublicNames } from './public_names.ts';

const SECRET_GRACE_MS = 86_400_000;
const MAX_SECRET_GRACE_MS = 30 * SECRET_GRACE_MS;
const GRACE_RULE = `must be a whole number of ms from 0 to ${MAX_SECRET_GRACE_MS}`;

const SECRET_AT_RULE = 'must be the time in ms that GET /api_tokens shows';

const rotation = z.strictObject({
  grace: z
    .int(GRACE_RULE)
    .min(0, GRACE_RULE)
    .max(MAX_SECRET_GRACE_MS, GRACE_RULE)
    .default(SECRET_GRACE_MS)
    .describe('How long the old secret still works, in ms.'),
  secret_at: z
    .int(SECRET_AT_RULE)
    .optional()
    .describe('Replaces only the secret that was made at this time, as `GET /api_tokens` shows it.'),
});

const token = { token: z.string().describe('The token of the client.') };
const shownPatterns = z.array(z.string()).readonly().optional();
const scopes = {
  publish: shownPatterns.describe('The topics that it may publish to; missing if it may to any.'),
  subscribe: shownPatterns.describe('The topics that it may subscribe to; missing if it may to any.'),
};

const TOKEN_PARAMS: Input<{ token: string }> = {
  schema: z.object(token),
  wording: { code: 'bad_client', whole: `no client has this token; one ${TOKEN_RULE}` },
};
const ROTATION: Input<z.infer<typeof rotation>> = {
  schema: rotation.prefault({}),
  wording: clientWording('{"grace": 3600000}', Object.keys(rotation.shape)),
};
const CLIENT = z.object({ ...token, name: z.string(), ...scopes }).register(NAMED, { name: 'Client' });
const ms = z.int().nullable();
const LISTED_CLIENT = CLIENT.extend({
  created_at: ms.describe('When it was made; null if not known.'),
  secret_at: ms.describe('When its secret was made; null if it has none.'),
  last_seen_at: ms.describe('When it called last, to a minute or two; null if never, or not known.'),
});
export type ClientReport = z.infer<typeof LISTED_CLIENT>;
const MADE_CLIENT = CLIENT.extend({
  secret: z.string().optional().describe('Shown this once; missing if its token is its credential.'),
});
const ROTATED = z.object({ ...token, secret: z.string(), grace: z.int().describe('In ms.') });

const CLIENTS_QUERY = parameters({
  ...PAGE_FIELDS,
  name: sought('Those whose name contains this; for root, also those whose token contains it.'),
});

interface ApiTokensParts {
  clients: Clients;
  pages: Pages;
  publicNames: PublicNames;
  /**
   * A new client without a secret needs a token of at least `minTokenLength` characters, because the token is its
   * credential.
   */
  config: Pick<Config, 'minTokenLength'>;
  subscribers: { remove(token: string): Promise<unknown> };
  joins: { tokens(client: string): Promise<string[]> };
  authentication: { credentials: Pick<Credentials, 'isReserved'> };
  dialect: ClientDialect;
}

/**
 * Maximum joins that are removed at the same time. One after the other would be slow: while a partition hangs, each
 * removal of a join with a topic there takes five seconds. More at a time would keep other calls waiting for Redis,
 * because the queues of the joins may be long.
 */
const JOINS_AT_ONCE = 10;

/** Headers of answers that contain a secret, so that no cache keeps them. */
const SECRET = { 'Cache-Control': 'no-store' };

/**
 * The calls under `/api_tokens`: root manages clients, their secrets, and their scopes (the topics that they may use).
 * Viewers list clients.
 */
export function apiTokensApi({ authentication, dialect, ...parts }: ApiTokensParts): Route[] {
  const { clients, pages, publicNames, subscribers, joins } = parts;
  const { minTokenLength } = parts.config;
  const isReserved = (text: string) => authentication.credentials.isReserved(text);

  /** Removes joins. If one cannot be removed, removes the others, and then throws the error. */
  const removeJoins = async (tokens: readonly string[]) => {
    const slices: Promise<void>[] = [];
    for (const slice of slicesOf(tokens, JOINS_AT_ONCE)) {
      slices.push(allOrThrow(slice.map((join) => subscribers.remove(join))));
      await Promise.allSettled(slices);
    }
    await allOrThrow(slices);
  };

  /**
   * Registers or changes a client (see `Clients.register`). Deletes the batches and dead letters of joins that this has
   * ended.
   */
  const registering = async (name: string | undefined, token: string, scopes: Scopes) => {
    const { ended, failure, ...reply } = await clients.register(name, token, scopes);
    await removeJoins(ended);
    if (failure) throw failure;
    return reply;
  };

  const register = async (name: string, token: string, scopes: Scopes) => {
    const { outcome } = await registering(name, token, scopes);
    if (outcome === 'ok') return { token, name };
    throw new BusError(
      'client_has_secret',
      'a client with a secret has this token, which others may know; choose another, or remove that client first',
    );
  };

  return [
    route('GET /api_tokens', WATCHERS, {
      query: CLIENTS_QUERY,
      answers: { 200: z.array(LISTED_CLIENT), 204: null },
      async handle(call) {
        const names = await clients.sorted();
        if (names.length === 0) return NO_CONTENT;
        const matches = nameFilter(call.caller, call.query.name);
        const page = await pages.cut(call, async () => names, placeOf, { isSorted: true, matches });
        const list = await clients.read((page?.entries ?? names).map(([token]) => token));
        return listed(list, (slice) => publicNames.shownTo(call.caller, slice, 'token'), page);
      },
    }),
    route('POST /api_tokens', ROOT, {
      action: 'client.create',
      body: newClientInput(isReserved, dialect),
      answers: { 201: MADE_CLIENT },
      errors: ['bad_client', 'client_has_secret', 'storage_full'],
      async handle({ body: { name, token, secret, publish, subscribe } }) {
        // An existing client keeps its token, however short, because the token may be from a Ruby Routemaster.
        if (token && token.length < minTokenLength && !(await clients.find(token))) {
          const rule = `token must have at least ${minTokenLength} characters in production`;
          throw new BusError('bad_client', rule, { members: { field: 'token' } });
        }
        const scopes = { publish, subscribe };
        // Scopes are stored with the clients in Redis. The clients of ROUTEMASTER_CLIENTS are not in Redis, so they
        // cannot have scopes.
        if (token && (publish || subscribe) && clients.isFixed(token)) {
          const rule = 'ROUTEMASTER_CLIENTS sets this token, so its client cannot be limited; choose another';
          throw new BusError('bad_client', rule, { members: { field: 'token' } });
        }
        const create = () =>
          secret ? clients.create(name, scopes) : clients.createWithoutSecret(name, scopes);
        const made = token ? await register(name, token, scopes) : await create();
        return { status: 201, headers: SECRET, body: { ...made, ...scopes } } as const;
      },
    }),
    route('PUT /api_tokens/:token', ROOT, {
      action: 'client.limit',
      params: TOKEN_PARAMS,
      body: LIMITS_INPUT,
      answers: { 200: CLIENT },
      errors: ['bad_client', 'client_not_found', 'storage_full'],
      async handle({ params: { token }, body }) {
        checkChangeable(token, clients);
        const { name } = await registering(undefined, token, body);
        if (name === undefined) throw new BusError('client_not_found', 'no client has this token');
        return ok({ token, name, ...body });
      },
    }),
    route('DELETE /api_tokens/:token', ROOT, {
      action: 'client.delete',
      params: TOKEN_PARAMS,
      answers: NOTHING,
      errors: ['bad_client'],
      async handle({ params: { token } }) {
        checkChangeable(token, clients);
        // The subscriber and the joins are removed even if the client is already gone: an earlier call may have failed
        // half-way.
        await clients.remove(token);
        const removing = joins.tokens(token).then(removeJoins);
        // If a partition is away, the other partitions are still cleaned up. But the subscriber, or a join, is not
        // removed yet if it is subscribed to a topic of the partition that is away.
        await allOrThrow([clients.removeCopies(token), subscribers.remove(token), removing]);
        return NO_CONTENT;
      },
    }),
    route('POST /api_tokens/:token/secret', ROOT, {
      action: 'client.rotate_secret',
      params: TOKEN_PARAMS,
      body: ROTATION,
      answers: { 200: ROTATED },
      errors: ['bad_client', 'client_not_found', 'storage_full'],
      async handle({ params: { token }, body }) {
        checkChangeable(token, clients);
        const { grace, secret_at } = body;
        const rotated = await clients.rotate(token, grace, secret_at);
        if (rotated === 'client_not_found') throw new BusError(rotated, 'no client has this token');
        if (rotated === 'no_secret')
          throw new BusError('bad_client', 'this client has no secret; make another, which has one');
        if (rotated === 'replaced_meanwhile')
          throw new BusError('bad_client', 'the secret was replaced after that time; nothing was changed', {
            members: { field: 'secret_at' },
          });
        return { ...ok({ token, ...rotated, grace }), headers: SECRET };
      },
    }),
  ];
}

/**
 * Returns a function that tells whether a client matches the search `text`. Returns undefined for an empty search.
 * Viewers do not search in tokens, because a token may be a credential.
 */
function nameFilter({ role }: Caller, text: string | undefined) {
  if (!text) return undefined;
  return ([token, name]: TokenAndName) => name.includes(text) || (role === 'root' && token.includes(text));
}

/** Waits until all promises are settled. If some have rejected, throws the error of the first of these in the list. */
async function allOrThrow(all: readonly Promise<unknown>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(all))
    if (outcome.status === 'rejected') throw outcome.reason;
}

function checkChangeable(token: string, clients: Clients): void {
  if (clients.isFixed(token))
    throw new BusError('bad_client', 'ROUTEMASTER_CLIENTS sets this token; change it there and restart');
  if (!CLIENT_TOKEN.test(token)) throw new BusError('bad_client', TOKEN_PARAMS.wording.whole);
}
