import { type Request, type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { BusError } from '../errors.ts';
import { readText } from '../http/body.ts';
import { parseJson } from '../http/json.ts';
import { onlyMethods } from '../http/problems.ts';
import type { Authentication } from './authentication.ts';
import { CLIENT_NAME, CLIENT_TOKEN, type Clients, LONGEST_NAME_OF_MADE_TOKEN } from './client.ts';
import { ROOT_USER } from './credentials.ts';
import { isTopicPattern, MOST_PATTERNS, type Scopes, TOPIC_PATTERN_RULE } from './scope.ts';

export interface ApiTokensParts {
  authentication: Authentication;
  clients: Clients;
  /** Forgets the subscriber of this token; it is not an error if there is none. */
  removeSubscriber: (token: string) => Promise<unknown>;
}

const NAME_RULE = 'must be a string of 1 to 64 characters: a-z, 0-9, _';
const TOKEN_RULE = 'must be a string of 1 to 64 characters: a-z, 0-9, _, -';
const PATTERNS_RULE = 'must be an array of topic names, each perhaps ending in *';
const GRACE_MS = 86_400_000;
const LONGEST_GRACE_MS = 30 * GRACE_MS;
const GRACE_RULE = `must be a whole number of ms from 0 to ${LONGEST_GRACE_MS}`;

const patterns = z
  .array(z.string(TOPIC_PATTERN_RULE).refine(isTopicPattern, TOPIC_PATTERN_RULE), PATTERNS_RULE)
  .max(MOST_PATTERNS, `must have at most ${MOST_PATTERNS} entries`)
  .optional();

const NEW_CLIENT = z.strictObject({
  name: z.string(NAME_RULE).regex(CLIENT_NAME, NAME_RULE),
  token: z.string(TOKEN_RULE).regex(CLIENT_TOKEN, TOKEN_RULE).optional(),
  publish: patterns,
  subscribe: patterns,
});

const ROTATION = z.strictObject({
  grace: z.int(GRACE_RULE).min(0, GRACE_RULE).max(LONGEST_GRACE_MS, GRACE_RULE).default(GRACE_MS),
});

type OfToken = Request<{ token: string }>;

/** `/api_tokens`: root lists, makes and removes clients, and rotates their secrets. */
export function apiTokens(parts: ApiTokensParts): Router {
  const { authentication, clients } = parts;
  const root = authentication.require('root');
  const router = Router({ strict: true, caseSensitive: true });

  const list: RequestHandler = async (_request, response) => {
    const all = await clients.list();
    if (all.length === 0) response.writeHead(204).end();
    else response.json(all);
  };
  const create: RequestHandler = async (request, response) => {
    const { name, token, ...rest } = readNewClient(await readBody(request), authentication);
    const scopes = scopesIn(rest);
    const client = await (token === undefined
      ? clients.create(name, scopes)
      : clients.register(name, token, scopes));
    showSecret(response.status(201), { ...client, ...scopes });
  };
  const rotate = async (request: OfToken, response: Response) => {
    const { token } = request.params;
    const { grace } = read(ROTATION, await readBody(request), 'grace');
    checkChangeable(token, clients);
    const rotated = await clients.rotate(token, grace);
    if (rotated === 'client_not_found') throw new BusError(rotated, 'no client has this token');
    if (rotated === 'no_secret')
      throw new BusError('bad_client', 'this client has no secret; make another, which has one');
    showSecret(response, { token, ...rotated, grace });
  };
  const remove = async (request: OfToken, response: Response) => {
    const { token } = request.params;
    checkChangeable(token, clients);
    // The subscriber goes even if the token had gone: a removal that was cut off in between is completed by the next.
    await clients.remove(token);
    await parts.removeSubscriber(token);
    response.writeHead(204).end();
  };

  router.route('/api_tokens').get(root, list).post(root, create).all(onlyMethods('GET', 'POST'));
  router.route('/api_tokens/:token').delete(root, remove).all(onlyMethods('DELETE'));
  router.route('/api_tokens/:token/secret').post(root, rotate).all(onlyMethods('POST'));
  return router;
}

/** The secret is shown this once, and to nobody but the caller. */
function showSecret(response: Response, body: object): void {
  response.set('Cache-Control', 'no-store').json(body);
}

/** Without a body there is nothing to choose. */
async function readBody(request: Request): Promise<unknown> {
  const text = await readText(request);
  return text === '' && request.path.endsWith('/secret') ? {} : parseJson(text);
}

/** Throws bad_client, with the `field`. */
function readNewClient(body: unknown, authentication: Authentication): z.infer<typeof NEW_CLIENT> {
  const client = read(NEW_CLIENT, body, 'name, publish and subscribe, and token if you choose it');
  const { name, token } = client;
  if (token === undefined && name.length > LONGEST_NAME_OF_MADE_TOKEN) {
    throw refused(
      'name',
      `must have at most ${LONGEST_NAME_OF_MADE_TOKEN} characters, as the token begins with it`,
    );
  }
  if (token === ROOT_USER || (token !== undefined && authentication.isRootKey(token))) {
    throw refused('token', 'is reserved for root; choose another');
  }
  return client;
}

/** Throws bad_client, with the `field`. `fields`: what there is. */
function read<T>(schema: z.ZodType<T>, body: unknown, fields: string): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  if (unknown !== undefined) throw refused(unknown, `is not a field here; use ${fields}`);
  const field = issue?.path.join('.') ?? '';
  if (field === '') throw new BusError('bad_client', 'send an object such as {"name": "billing"}');
  throw refused(field, issue?.message ?? '');
}

function refused(field: string, rule: string): BusError {
  return new BusError('bad_client', `${field} ${rule}`, { members: { field } });
}

function scopesIn({ publish, subscribe }: { [K in keyof Scopes]: string[] | undefined }): Scopes {
  return { ...(publish && { publish }), ...(subscribe && { subscribe }) };
}

function checkChangeable(token: string, clients: Clients): void {
  if (clients.isFixed(token)) {
    throw new BusError('bad_client', 'ROUTEMASTER_CLIENTS sets this token; change it there and restart');
  }
  if (!CLIENT_TOKEN.test(token))
    throw new BusError('bad_client', `no client has this token; one ${TOKEN_RULE}`);
}
