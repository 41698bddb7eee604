import { type Call, collect, Failure, numberOption, textOption, UsageError } from './command.ts';

/**
 * Creates a client. Without --json, prints its token alone on stdout, as scripts for the Ruby tool `rtm` expect. The
 * secret goes to stderr.
 */
export async function addToken(call: Call): Promise<void> {
  const [name = '', token] = call.args;
  const client = await call.connect().createClient({ name, token, ...limitsIn(call) });
  call.print(client, [client.token]);
  if (client.secret !== undefined && !call.options.json) {
    call.note(`secret: ${client.secret} (shown only this once)`);
  }
}

export async function limitToken(call: Call): Promise<void> {
  const [token = ''] = call.args;
  call.print(await call.connect().limitClient(token, limitsIn(call)), []);
}

function limitsIn(call: Call) {
  return { publish: topicsIn(call, 'publish'), subscribe: topicsIn(call, 'subscribe') };
}

/**
 * Returns the topics that an option lists, or undefined if it is not given. Commas separate the topics. As in the
 * console, `-` stands for no topics. Throws UsageError for an empty option, as from a shell variable that is not set.
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
 * Removes a client. Throws Failure if there is none, so that the user notices a wrong token. The API does not tell: it
 * answers 204 whether or not there was such a client.
 */
export async function deleteToken(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const bus = call.connect();
  const clients = await collect(bus.clients());
  if (!clients.some((each) => each.token === token)) {
    const named = clients.find(({ name }) => name === token);
    const advice = named ? `the client ${token} has the token ${named.token}` : 'rtm token list has all';
    throw new Failure('client_not_found', `no client has the token ${token}; ${advice}`);
  }
  await bus.removeClient(token);
}

export async function listTokens(call: Call): Promise<void> {
  const clients = await collect(call.connect().clients());
  const lines = clients.map(({ token, name }) => `${token}\t${name}`);
  call.print(clients, lines.length > 0 ? lines : ['No tokens have been added.']);
}

export async function rotateSecret(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const rotation = { grace: numberOption(call, 'grace'), secret_at: numberOption(call, 'secret-at') };
  const answer = await call.connect().rotateSecret(token, rotation);
  call.print(answer, [answer.secret]);
}
