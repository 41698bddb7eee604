import { byTokenOrName, meantBy } from './client_names.ts';
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
  call.print(await byTokenOrName(bus, token, (each) => bus.limitClient(each, limitsIn(call))), []);
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
 * the client, but not its subscriber. Does not take the name of a client: if the command is repeated, another client of
 * this name must not be removed.
 */
export async function deleteToken(call: Call): Promise<void> {
  const [token = ''] = call.args;
  const bus = call.connect();
  const { client, advice } = await meantBy(bus, token);
  await bus.removeClient(token);
  if (client?.token === token) return;
  const named =
    client && `no client has the token ${token}; the client ${token} has the token ${client.token}`;
  throw new Failure('client_not_found', named ?? advice ?? '');
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
  const rotating = byTokenOrName(bus, token, (each) => bus.rotateSecret(each, rotation));
  const answer = await rotating.catch(
    adviseIfPerhapsDone(
      'the secret may have been replaced: see secret_at in rtm token list --json before you rotate it again, which ' +
        'would end at once the secret that the client still uses',
    ),
  );
  call.print(answer, [answer.secret]);
}
