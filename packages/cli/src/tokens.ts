import { type Routemaster, SubscriberNotFoundError } from '@routemaster/client';
import { byTokenOrName, type Client, meantBy } from './client_names.ts';
import {
  type Call,
  collect,
  durationOption,
  Failure,
  numberOption,
  textOption,
  UsageError,
} from './command.ts';
import { remove } from './ending.ts';
import { countsOf, type Subscription } from './subscriptions.ts';
import { timeOf } from './tables.ts';
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

/**
 * Limits a client, and prints what it may do now. If the command line has no option for one of the two lists, this list
 * is sent again as it is. The API replaces both lists, and a list that is left out would permit any topic. Prints a
 * note on stderr of the subscriptions and joins that have ended.
 */
export async function limitToken(call: Call): Promise<void> {
  const [given = ''] = call.args;
  const limits = limitsIn(call);
  if (Object.keys(limits).length === 0)
    throw new UsageError("Give --publish, --subscribe or both; '*' permits any topic");
  const bus = call.connect();
  const { client, advice } = await meantBy(bus, given);
  if (!client) throw new Failure('client_not_found', advice);
  const before = await usesOf(bus, client);
  const { publish, subscribe } = { ...client, ...limits };
  const answer = await bus.limitClient(client.token, { publish, subscribe });
  call.print(answer, [`${answer.token} ${limitTexts(answer).join(', and ')}`]);
  const after = before && (await usesOf(bus, client));
  if (!after) return;
  const [topics, joins] = before.map((uses, n) =>
    uses.filter((each) => !after[n]?.includes(each)).join(', '),
  );
  if (topics) call.note(`ended its subscriptions to ${topics}`);
  if (joins) call.note(`removed its joins ${joins}`);
}

/**
 * Returns the topics to which a client is subscribed, and the names of its joins. Returns undefined if the bus does not
 * say so. The client is limited all the same, because the limit matters more than a note on what it has ended.
 */
async function usesOf(bus: Routemaster, { token }: Client): Promise<string[][] | undefined> {
  try {
    const [subscription, joins] = await Promise.all([ifSubscribed(bus, token), joinsOf(bus, token)]);
    return [subscription?.topics ?? [], joins];
  } catch {
    return undefined;
  }
}

/** Returns what a client may do, as two texts. */
function limitTexts({ publish, subscribe }: Limits): [string, string] {
  const text = (topics?: readonly string[]) =>
    topics?.length === 0 ? 'no topic' : (topics?.join(',') ?? 'any topic');
  return [`may publish to ${text(publish)}`, `may subscribe to ${text(subscribe)}`];
}

interface Limits {
  publish?: string[] | undefined;
  subscribe?: string[] | undefined;
}

/**
 * Returns the lists that options give. If an option permits any topic, its list is undefined. If an option is not
 * given, its list is missing.
 */
function limitsIn(call: Call): Limits {
  const limits: Limits = {};
  for (const name of ['publish', 'subscribe'] as const) {
    const text = textOption(call, name);
    if (text !== undefined) limits[name] = topicsIn(name, text);
  }
  return limits;
}

/**
 * Returns the topics that the text of an option lists, or undefined if it permits any topic (`*`). Commas separate the
 * topics. As in the console, `-` stands for no topics. Throws UsageError for an empty text: the shell variable that
 * should name the topics may be unset.
 */
function topicsIn(name: string, text: string): string[] | undefined {
  if (text === '-') return [];
  const topics = text.split(',').filter(Boolean);
  if (topics.length === 0)
    throw new UsageError(`--${name} must name topics, such as orders,shop_*, or be - for none`);
  return topics.includes('*') ? undefined : topics;
}

/**
 * Removes a client. Throws Failure if no client has this token, so that the user notices a wrong token: the API would
 * answer 204 all the same. Calls the API in this case too, because an earlier call may have failed after it had removed
 * the client, but not its subscriber. Does not take the name of a client: if the command is repeated, another client of
 * this name must not be removed.
 */
export async function deleteToken(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const bus = call.connect();
  const { client, advice } = await meantBy(bus, token);
  if (client?.token === token)
    return remove(
      call,
      `the client ${client.name}`,
      (quiet) => belongingsOf(quiet, token),
      () => bus.removeClient(token),
    );
  await bus.removeClient(token);
  const named =
    client && `no client has the token ${token}; the client ${token} has the token ${client.token}`;
  throw new Failure('client_not_found', named ?? advice ?? '');
}

/** Returns the counts of what is removed with a client, for `remove`. */
async function belongingsOf(bus: Routemaster, token: string): Promise<Record<string, number>> {
  const [subscription, joins, triggers] = await Promise.all([
    ifSubscribed(bus, token),
    joinsOf(bus, token),
    collect(bus.triggers({ client: token })),
  ]);
  return { ...countsOf(subscription), join: joins.length, trigger: triggers.length };
}

/** Returns the subscription of a client, or undefined if it has none. */
function ifSubscribed(bus: Routemaster, token: string): Promise<Subscription | undefined> {
  return bus.subscriber(token).catch((error) => {
    if (error instanceof SubscriberNotFoundError) return undefined;
    throw error;
  });
}

/** Returns the names of a client's joins. */
async function joinsOf(bus: Routemaster, token: string): Promise<string[]> {
  const joins = await collect(bus.joins());
  return joins.filter(({ client }) => client === token).map(({ name }) => name);
}

export async function listTokens(call: Call): Promise<void> {
  const clients = await collect(call.connect().clients());
  const lines = clients.map((client) => {
    const { token, name, publish, subscribe } = client;
    // The Ruby tool `rtm`, whose clients have no limits, prints the token and the name alone.
    return [token, name, ...(publish || subscribe ? limitTexts(client) : [])].join('\t');
  });
  call.print(clients, lines.length > 0 ? lines : ['No tokens have been added.']);
}

export async function rotateSecret(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const rotation = { grace: durationOption(call, 'grace'), secret_at: numberOption(call, 'secret-at') };
  const bus = call.connect();
  const rotating = byTokenOrName(bus, token, (each) => bus.rotateSecret(each, rotation));
  const answer = await rotating.catch(
    adviseIfPerhapsDone(
      'the secret may have been replaced: see secret_at in rtm token list --json before you rotate it again, which ' +
        'would end at once the secret that the client still uses',
    ),
  );
  call.print(answer, [answer.secret]);
  const until = timeOf(Date.now() + answer.grace);
  call.note(answer.grace === 0 ? 'the old secret has ended' : `the old secret still works until ${until}`);
}
