import {
  ClientNotFoundError,
  JoinNotFoundError,
  type Routemaster,
  type RoutemasterError,
  SubscriberNotFoundError,
  TriggerNotFoundError,
} from '@routemaster/client';
import { type Call, collect, Failure, numberOption, textOption, UsageError } from './command.ts';
import { adviseIfPerhapsDone } from './unanswered.ts';

/**
 * Creates a client. Without --json, prints its token alone on stdout, as scripts for the Ruby tool `rtm` expect. The
 * secret goes to stderr.
 */
export async function addToken(call: Call): Promise<void> {
  const [name = '', token] = call.args;
  const creating = call.connect().createClient({ name, token, ...limitsIn(call) });
  const client = await creating.catch(
    adviseIfPerhapsDone(
      'the client may have been created, and its secret is lost then: rtm token list shows it, and rtm token del ' +
        'removes it',
    ),
  );
  call.print(client, [client.token]);
  if (client.secret !== undefined && !call.options.json) {
    call.note(`secret: ${client.secret} (shown only this once)`);
  }
}

export async function limitToken(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const bus = call.connect();
  call.print(await bus.limitClient(token, limitsIn(call)).catch(adviseOn(bus, token)), []);
}

function limitsIn(call: Call) {
  return { publish: topicsIn(call, 'publish'), subscribe: topicsIn(call, 'subscribe') };
}

/**
 * Returns the topics that an option lists, or undefined if it is not given. Commas separate the topics. As in the
 * console, `-` stands for no topics. Throws UsageError for an empty option: the shell variable that should name the
 * topics may be unset.
 */
function topicsIn(call: Call, name: string): string[] | undefined {
  const text = textOption(call, name);
  if (text === undefined) return undefined;
  if (text === '-') return [];
  const topics = text.split(',').filter(Boolean);
  if (topics.length === 0)
    throw new UsageError(`--${name} must name topics, such as orders,shop_*, or be - for none`);
  return topics;
}

/**
 * Removes a client. Throws Failure if no client has this token, so that the user notices a wrong token: the API would
 * answer 204 all the same. Calls the API in this case too, because an earlier call may have failed after it had removed
 * the client, but not its subscriber.
 */
export async function deleteToken(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const bus = call.connect();
  const advice = await unknownClient(bus, token);
  await bus.removeClient(token);
  if (advice !== undefined) throw new Failure('client_not_found', advice);
}

/**
 * Returns undefined if a client has this token. Otherwise returns a sentence that says where to find the right token:
 * the user may have given the name of a client instead of its token.
 */
async function unknownClient(bus: Routemaster, token: string): Promise<string | undefined> {
  const clients = await collect(bus.clients());
  if (clients.some((each) => each.token === token)) return undefined;
  const tokens = clients.filter(({ name }) => name === token).map((each) => each.token);
  const advice =
    tokens.length > 0 ? `the client ${token} has the token ${tokens.join(' or ')}` : 'rtm token list has all';
  return `no client has the token ${token}; ${advice}`;
}

/**
 * Returns undefined if a client has this token. If no client has it, returns a sentence that says where to find the
 * right token. Also returns undefined if listing the clients fails, for example because the caller is neither root nor
 * a viewer.
 */
export function hintOnToken(bus: Routemaster, token: string): Promise<string | undefined> {
  return unknownClient(bus, token).catch(() => undefined);
}

/** The errors of a call that the bus may answer because no client has the token that was given. */
const PERHAPS_UNKNOWN = [
  ClientNotFoundError,
  SubscriberNotFoundError,
  JoinNotFoundError,
  TriggerNotFoundError,
];

/**
 * Returns a handler for the errors of a call. If the bus found nothing because no client has this token, the handler
 * throws an error that says where to find the right token. Otherwise it throws the given error.
 */
export function adviseOn(bus: Routemaster, token: string): (error: RoutemasterError) => Promise<never> {
  return async (error) => {
    if (!PERHAPS_UNKNOWN.some((each) => error instanceof each)) throw error;
    const advice = await hintOnToken(bus, token);
    throw advice === undefined ? error : new Failure(error.code, advice, { cause: error });
  };
}

/**
 * Prints a note if no client has this token. Only root and viewers get the note. Call this if the bus lists nothing for
 * a subscriber: the user may have given a wrong token.
 */
export async function noteUnknownClient(call: Call, bus: Routemaster, token: string): Promise<void> {
  const advice = await hintOnToken(bus, token);
  if (advice !== undefined) call.note(advice);
}

export async function listTokens(call: Call): Promise<void> {
  const clients = await collect(call.connect().clients());
  const lines = clients.map(({ token, name }) => `${token}\t${name}`);
  call.print(clients, lines.length > 0 ? lines : ['No tokens have been added.']);
}

export async function rotateSecret(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const rotation = { grace: numberOption(call, 'grace'), secret_at: numberOption(call, 'secret-at') };
  const bus = call.connect();
  const rotating = bus.rotateSecret(token, rotation).catch(adviseOn(bus, token));
  const answer = await rotating.catch(
    adviseIfPerhapsDone(
      'the secret may have been replaced: see secret_at in rtm token list --json before you rotate it again, which ' +
        'would end at once the secret that the client still uses',
    ),
  );
  call.print(answer, [answer.secret]);
}
