import type { Command, Option } from './command.ts';
import { publish } from './publishing.ts';
import { addSubscription, deleteSubscription, listSubscriptions } from './subscriptions.ts';
import { addToken, deleteToken, listTokens } from './tokens.ts';

/** What every command takes. */
export const COMMON_OPTIONS: Readonly<Record<string, Option>> = {
  bus: {
    type: 'string',
    short: 'b',
    value: 'DOMAIN|@NAME',
    help: 'the domain of the bus, or its name in .rtmrc',
  },
  token: {
    type: 'string',
    short: 't',
    value: 'TOKEN',
    help: 'the token of a client, TOKEN:SECRET, or the root key',
  },
  secret: { type: 'string', value: 'SECRET', help: 'the secret of the client' },
  json: { type: 'boolean', help: 'print what the bus answers, as JSON' },
  verbose: { type: 'boolean', short: 'v', help: 'show where an error comes from' },
  help: { type: 'boolean', short: 'h', help: 'show how to use the command' },
};

/** All commands. Help, the README and the completion come from this table. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'token add',
    args: ['SERVICE [TOKEN]'],
    help: 'create a client, and print its token; its secret is shown on stderr (root)',
    run: addToken,
  },
  { name: 'token del', args: ['TOKEN'], help: 'remove a client (root)', run: deleteToken },
  { name: 'token list', args: [''], help: 'list the clients: token, tab, name (root)', run: listTokens },
  {
    name: 'sub add',
    args: ['URL TOPIC [TOPIC...]'],
    options: {
      latency: { type: 'string', value: 'MS', help: 'how long events may wait for others' },
      'batch-size': { type: 'string', value: 'COUNT', help: 'maximum events in a delivery' },
    },
    help: 'subscribe the client, with its token as uuid, or change its subscription',
    run: addSubscription,
  },
  {
    name: 'sub del',
    args: ['[TOPIC...]'],
    help: 'unsubscribe the client from the topics, or from everything if none is given',
    run: deleteSubscription,
  },
  { name: 'sub list', args: [''], help: 'list the subscriptions, as YAML', run: listSubscriptions },
  {
    name: 'pub',
    args: ['created|updated|deleted|noop TOPIC URL'],
    help: 'publish an event',
    run: publish,
  },
];
