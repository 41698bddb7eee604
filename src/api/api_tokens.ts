import { type Request, type RequestHandler, Router } from 'express';
import { z } from 'zod';
import { BusError } from '../errors.ts';
import { CLIENT_NAME, CLIENT_TOKEN, type Clients, LONGEST_NAME_OF_MADE_TOKEN } from '../models/client.ts';
import type { Authentication } from './authentication/authentication.ts';
import { ROOT_USER } from './authentication/credentials.ts';
import { jsonBody } from './body.ts';
import { onlyMethods } from './problems.ts';

export interface ApiTokensParts {
  authentication: Authentication;
  clients: Clients;
  /** Forgets the subscriber of this token; it is not an error if there is none. */
  removeSubscriber: (token: string) => Promise<unknown>;
}

const NAME_RULE = 'must be a string of 1 to 64 characters: a-z, 0-9, _';
const TOKEN_RULE = 'must be a string of 1 to 64 characters: a-z, 0-9, _, -';

const REQUEST = z.strictObject({
  name: z.string(NAME_RULE).regex(CLIENT_NAME, NAME_RULE),
  token: z.string(TOKEN_RULE).regex(CLIENT_TOKEN, TOKEN_RULE).optional(),
});

/** `/api_tokens`: root lists, makes and removes clients. */
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
    const { name, token } = readNewClient(request.body, authentication);
    const client = await (token === undefined ? clients.create(name) : clients.register(name, token));
    // The secret is shown this once, and to nobody but the caller.
    response.status(201).set('Cache-Control', 'no-store').json(client);
  };
  const remove = async (request: Request<{ token: string }>, response: Parameters<RequestHandler>[1]) => {
    const { token } = request.params;
    checkRemovable(token, clients);
    // The subscriber goes even if the token had gone: a removal that was cut off in between is completed by the next.
    await clients.remove(token);
    await parts.removeSubscriber(token);
    response.writeHead(204).end();
  };

  router.route('/api_tokens').get(root, list).post(root, jsonBody, create).all(onlyMethods('GET', 'POST'));
  router.route('/api_tokens/:token').delete(root, remove).all(onlyMethods('DELETE'));
  return router;
}

/** Throws bad_client, with the `field`. */
function readNewClient(body: unknown, authentication: Authentication): z.infer<typeof REQUEST> {
  const read = REQUEST.safeParse(body);
  if (!read.success) throw unacceptable(read.error.issues[0]);
  const { name, token } = read.data;
  if (token === undefined && name.length > LONGEST_NAME_OF_MADE_TOKEN) {
    throw refused(
      'name',
      `must have at most ${LONGEST_NAME_OF_MADE_TOKEN} characters, as the token begins with it`,
    );
  }
  if (token === ROOT_USER || (token !== undefined && authentication.isRootKey(token))) {
    throw refused('token', 'is reserved for root; choose another');
  }
  return read.data;
}

function unacceptable(issue: z.core.$ZodIssue | undefined): BusError {
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  if (unknown !== undefined)
    return refused(unknown, 'is not a field of a client; use name, and token if you choose it');
  const field = issue?.path.join('.') ?? '';
  if (field === '') return new BusError('bad_client', 'send an object such as {"name": "billing"}');
  return refused(field, issue?.message ?? '');
}

function refused(field: string, rule: string): BusError {
  return new BusError('bad_client', `${field} ${rule}`, { members: { field } });
}

function checkRemovable(token: string, clients: Clients): void {
  if (clients.isFixed(token)) {
    throw new BusError('bad_client', 'ROUTEMASTER_CLIENTS sets this token; take it out there and restart');
  }
  if (!CLIENT_TOKEN.test(token))
    throw new BusError('bad_client', `no client has this token; one ${TOKEN_RULE}`);
}
