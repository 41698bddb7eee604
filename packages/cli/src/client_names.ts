import {
  BadQueryError,
  type Calls,
  ClientNotFoundError,
  JoinNotFoundError,
  type Routemaster,
  type RoutemasterError,
  SubscriberNotFoundError,
  TriggerNotFoundError,
} from '@routemaster/client';
import { type Call, collect, Failure } from './command.ts';

export type Client = NonNullable<Calls['GET /api_tokens']['answer']>[number];

/**
 * The client that the user means by a token or a name. If that is not clear, `advice` is a sentence that says what to
 * give instead.
 */
type Meant = { client: Client; advice?: undefined } | { client?: undefined; advice: string };

/**
 * Returns the client with this token or, if no client has this token, the client with this name. Returns advice if
 * there is no such client, or if several clients have the name.
 */
export async function meantBy(bus: Routemaster, given: string): Promise<Meant> {
  const clients = await collect(bus.clients());
  const named = clients.filter(({ name }) => name === given);
  const client = clients.find(({ token }) => token === given) ?? (named.length === 1 ? named[0] : undefined);
  if (client) return { client };
  if (named.length === 0)
    return { advice: `no client has the token or the name ${given}; rtm token list has all` };
  const tokens = named.map(({ token }) => token).join(' or ');
  return { advice: `${named.length} clients have the name ${given}: give the token of one, ${tokens}` };
}

/** The errors with which the bus may answer a call because no client has the given token. */
const PERHAPS_UNKNOWN = [
  ClientNotFoundError,
  SubscriberNotFoundError,
  JoinNotFoundError,
  TriggerNotFoundError,
];

/**
 * Calls `ask` with what the user gave as a token. If the bus finds nothing because no client has this token, but one
 * client has it as its name, calls `ask` again with the token of this client. If several or no clients have this name,
 * throws an error that says what to give.
 */
export async function byTokenOrName<Answer>(
  bus: Routemaster,
  given: string,
  ask: (token: string) => Promise<Answer>,
): Promise<Answer> {
  return ask(given).catch(async (error: RoutemasterError) => {
    if (!PERHAPS_UNKNOWN.some((each) => error instanceof each)) throw error;
    const meant = await ifListed(bus, given);
    if (meant?.advice !== undefined) throw new Failure(error.code, meant.advice, { cause: error });
    if (!meant || meant.client.token === given) throw error;
    return ask(meant.client.token);
  });
}

/**
 * Lists what belongs to the client that the user gave, like `byTokenOrName`. The bus lists nothing for an unknown
 * client, so if the list is empty, and it is unclear which client is meant, prints a note that says what to give.
 */
export async function listedByTokenOrName<Entry>(
  call: Call,
  bus: Routemaster,
  given: string | undefined,
  list: (token: string | undefined) => Promise<Entry[]>,
): Promise<Entry[]> {
  const entries = await list(given).catch((error: RoutemasterError) => {
    const isMissing =
      error instanceof BadQueryError && error.members.field === 'subscriber' && given === undefined;
    throw isMissing ? new Failure(error.code, 'say whose join it is: give --subscriber TOKEN') : error;
  });
  if (entries.length > 0 || given === undefined) return entries;
  const meant = await ifListed(bus, given);
  if (meant?.advice !== undefined) call.note(meant.advice);
  return meant?.client && meant.client.token !== given ? list(meant.client.token) : entries;
}

/** Returns undefined if the clients cannot be listed, for example because the caller is neither root nor a viewer. */
function ifListed(bus: Routemaster, given: string): Promise<Meant | undefined> {
  return meantBy(bus, given).catch(() => undefined);
}
