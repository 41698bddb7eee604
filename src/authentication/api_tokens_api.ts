import { z } from 'zod';
import type { Scopes } from '../caller.ts';
import type { Dialect } from '../dialect.ts';
import { BusError } from '../errors.ts';
import { listed } from '../listing.ts';
import type { PagedCall, Pages } from '../paging.ts';
import { type Input, NO_CONTENT, ok, type Wording } from '../route.ts';
import { CLIENT_NAME, CLIENT_TOKEN, type Clients, credentialToken, maxNameLength } from './client.ts';
import { ROOT_USER } from './credentials.ts';
import { isTopicPattern, MAX_PATTERNS, TOPIC_PATTERN_RULE } from './scope.ts';

const NAME_RULE = 'must be a string of 1 to 64 characters: a-z, 0-9, _, -';
const TOKEN_RULE = NAME_RULE;
const PATTERNS_RULE = 'must be an array of topic names, each perhaps ending in *';
const GRACE_MS = 86_400_000;
const MAX_GRACE_MS = 30 * GRACE_MS;
const GRACE_RULE = `must be a whole number of ms from 0 to ${MAX_GRACE_MS}`;

const patterns = z
  .array(z.string(TOPIC_PATTERN_RULE).refine(isTopicPattern, TOPIC_PATTERN_RULE), PATTERNS_RULE)
  .max(MAX_PATTERNS, `must have at most ${MAX_PATTERNS} entries`)
  .optional();

const wording: Wording = {
  code: 'bad_client',
  whole: 'send an object such as {"name": "billing"}',
  field: (name, rule) => `${name} ${rule}`,
  unknown: (name) => `${name} is not a field here; use grace`,
};

/** Other fields are ignored, as clients of the Ruby Routemaster expect. */
const newClient = (isRootKey: (text: string) => boolean, makesSecrets: boolean) =>
  z
    .object({
      name: z.string(NAME_RULE).regex(CLIENT_NAME, NAME_RULE),
      token: z
        .string(TOKEN_RULE)
        .regex(CLIENT_TOKEN, TOKEN_RULE)
        .refine((token) => token !== ROOT_USER && !isRootKey(token), 'is reserved for root; choose another')
        .nullish(),
      publish: patterns,
      subscribe: patterns,
      /** Whether the client has a secret. */
      secret: z.boolean('must be true or false').nullish(),
    })
    .transform(({ secret, token, ...rest }) => ({
      ...rest,
      token: token ?? undefined,
      secret: secret ?? (makesSecrets && typeof token !== 'string'),
    }))
    .superRefine(({ name, token, secret }, context) => {
      const refuse = (field: string, message: string) =>
        context.addIssue({ code: 'custom', path: [field], message });
      const max = maxNameLength(secret);
      if (token && secret) refuse('secret', 'must be false for a token of your own choosing');
      if (!token && name.length > max)
        refuse('name', `must have at most ${max} characters, as the token begins with it`);
    });

const rotation = z
  .strictObject({
    grace: z.int(GRACE_RULE).min(0, GRACE_RULE).max(MAX_GRACE_MS, GRACE_RULE).default(GRACE_MS),
  })
  .prefault({});

const token = { token: z.string() };
const shownPatterns = z.array(z.string()).readonly().optional();
const scopes = { publish: shownPatterns, subscribe: shownPatterns };

export const TOKEN_PARAMS: Input<{ token: string }> = {
  schema: z.object(token),
  wording: { code: 'bad_client', whole: `no client has this token; one ${TOKEN_RULE}` },
};
export const newClientInput = (
  isRootKey: (text: string) => boolean,
  { makesSecrets }: Pick<Dialect, 'makesSecrets'>,
): Input<NewClient> => ({
  schema: newClient(isRootKey, makesSecrets),
  wording,
});
export const ROTATION: Input<{ grace: number }> = { schema: rotation, wording };
export const CLIENT = z.object({ ...token, name: z.string(), ...scopes });
export const MADE_CLIENT = CLIENT.extend({ secret: z.string().optional() });
export const ROTATED = z.object({ ...token, secret: z.string(), grace: z.int() });

type NewClient = z.infer<ReturnType<typeof newClient>>;

interface ApiTokensParts {
  clients: Clients;
  pages: Pages;
  /** Minimum characters of the token of a new client without a secret. */
  minTokenLength: number;
  /** Removes the subscriber with this token, if there is one. */
  removeSubscriber: (token: string) => Promise<unknown>;
}

/** Headers of answers with a secret, which must not be cached. */
const SECRET = { 'Cache-Control': 'no-store' };

/** `/api_tokens`: root lists, makes and removes clients, and rotates their secrets. */
export function apiTokensApi({ clients, pages, minTokenLength, removeSubscriber }: ApiTokensParts) {
  const register = async (name: string, token: string, scopes: Scopes) => {
    if ((await clients.register(name, token, scopes)) === 'ok') return { token, name };
    throw new BusError(
      'client_has_secret',
      'a client with a secret has this token, which others may know; choose another, or remove that client first',
    );
  };

  return {
    async list(call: PagedCall) {
      const names = await clients.names();
      if (names.length === 0) return NO_CONTENT;
      const page = await pages.cut(
        call,
        async () => names,
        ([token, name]) => `${name}\0${token}`,
      );
      const list = await clients.read(page?.entries ?? names);
      return listed(list, async (slice) => [...slice], page);
    },

    async create({ body: { name, token, secret, publish, subscribe } }: { body: NewClient }) {
      // A client of a bus that was taken over keeps its token.
      if (token && token.length < minTokenLength && !(await clients.find(token))) {
        const rule = `token must have at least ${minTokenLength} characters in production`;
        throw new BusError('bad_client', rule, { members: { field: 'token' } });
      }
      const scopes = { ...(publish && { publish }), ...(subscribe && { subscribe }) };
      const made = secret
        ? await clients.create(name, scopes)
        : await register(name, token ?? credentialToken(name), scopes);
      return { status: 201, headers: SECRET, body: { ...made, ...scopes } } as const;
    },

    async rotate({
      params: { token },
      body: { grace },
    }: {
      params: { token: string };
      body: { grace: number };
    }) {
      checkChangeable(token, clients);
      const rotated = await clients.rotate(token, grace);
      if (rotated === 'client_not_found') throw new BusError(rotated, 'no client has this token');
      if (rotated === 'no_secret')
        throw new BusError('bad_client', 'this client has no secret; make another, which has one');
      return { ...ok({ token, ...rotated, grace }), headers: SECRET };
    },

    async remove({ params: { token } }: { params: { token: string } }) {
      checkChangeable(token, clients);
      // Removes the subscriber even if the client is gone already: an earlier removal may have been
      // interrupted.
      await clients.remove(token);
      await removeSubscriber(token);
      return NO_CONTENT;
    },
  };
}

/**
 * Throws bad_client for a token that the API cannot change. Tokens of ROUTEMASTER_CLIENTS may have any form,
 * so they are checked first.
 */
function checkChangeable(token: string, clients: Clients): void {
  if (clients.isFixed(token))
    throw new BusError('bad_client', 'ROUTEMASTER_CLIENTS sets this token; change it there and restart');
  if (!CLIENT_TOKEN.test(token)) throw new BusError('bad_client', TOKEN_PARAMS.wording.whole);
}
