import { listAudit } from './audit.ts';
import type { Command, Option } from './command.ts';
import { printCompletion } from './completion.ts';
import { listDeadLetters, purgeDeadLetters, retryDeadLetters, showDeadLetter } from './dead_letters.ts';
import { buryDelivery, listDeliveries, retryDelivery, showDelivery } from './deliveries.ts';
import { examine } from './doctor.ts';
import { YES } from './ending.ts';
import { deleteJoin, listJoins, putJoin, showJoin } from './joins.ts';
import { listen } from './listening.ts';
import { publish } from './publishing.ts';
import {
  addSubscription,
  deleteSubscription,
  listSubscriptions,
  pauseSubscription,
  resumeSubscription,
  showSubscription,
} from './subscriptions.ts';
import { tail } from './tailing.ts';
import { addToken, deleteToken, limitToken, listTokens, rotateSecret } from './tokens.ts';
import { top } from './top.ts';
import { deleteTopic, giveTopic, listTopics } from './topics.ts';
import { deleteTrigger, fireTrigger, listTriggers, putTrigger, showTrigger } from './triggers.ts';
import { verify } from './verifying.ts';
import { printVersion } from './version.ts';
import { ofClient } from './whose.ts';

export const COMMON_OPTIONS: Readonly<Record<string, Option>> = {
  bus: {
    short: 'b',
    value: 'DOMAIN|@NAME',
    help: 'the domain of the bus, or its name in .rtmrc; else $ROUTEMASTER_BUS',
  },
  token: {
    short: 't',
    value: 'TOKEN',
    help: 'the token of a client, TOKEN:SECRET, or the root key; else $ROUTEMASTER_TOKEN',
  },
  secret: { value: 'SECRET', help: 'the secret of the client' },
  json: { help: 'print what the bus answers, as JSON' },
  verbose: { short: 'v', help: 'show where an error comes from' },
  help: { short: 'h', help: 'show how to use the command' },
};

const OF_SUBSCRIBER: Option = { value: 'TOKEN', help: 'those of this subscriber (root)' };
const LISTED_SUBSCRIBER: Option = { ...OF_SUBSCRIBER, help: 'only those of this subscriber (root, viewer)' };
const LISTED_JOIN: Option = {
  value: 'NAME',
  help: 'only those of this join of the client, or of --subscriber',
};
const LIMITS: Readonly<Record<string, Option>> = {
  publish: {
    value: 'TOPICS',
    help: "what it may publish to, such as orders,shop_*; - means nothing, '*' any topic",
  },
  subscribe: { value: 'TOPICS', help: 'what it may subscribe to, in the same form' },
};
const ALL: Option = { help: 'all of the client, or of --subscriber' };

const SINCE: Option = {
  value: 'TIME',
  help: 'only from this time on: a date such as 2026-07-01T10:00Z, or how long ago, such as 2h',
};
const NEWEST: Option = { value: 'COUNT', help: 'how many, the newest; 100 unless given' };

/** All commands. The help, the README and the shell completion are made from this table. */
export const COMMANDS: readonly Command[] = [
  {
    name: 'token add',
    args: ['SERVICE [TOKEN]'],
    options: LIMITS,
    help: 'create a client, for any topic unless limited; print its token, and on stderr its secret (root)',
    run: addToken,
  },
  {
    name: 'token limit',
    args: ['TOKEN'],
    options: LIMITS,
    help: 'limit a client to these topics; a list without an option stays as it is (root)',
    run: limitToken,
  },
  {
    name: 'token del',
    args: ['TOKEN'],
    options: YES,
    help: 'remove a client, with its queue, dead letters, joins and triggers (root)',
    run: deleteToken,
  },
  {
    name: 'token list',
    help: 'list the clients: token, tab, name, and of limited ones what they may use (root, viewer)',
    run: listTokens,
  },
  {
    name: 'sub add',
    args: ['URL TOPIC [TOPIC...]'],
    options: {
      latency: { value: 'MS', help: 'how long events may wait for others' },
      'batch-size': { value: 'COUNT', help: 'maximum events in a delivery' },
      'max-bytes': { value: 'COUNT', help: 'maximum bytes of a delivery' },
      uuid: { value: 'TEXT', help: 'the user of each delivery; default: the present one, or the token' },
      ordered: { value: 'true|false', help: 'whether each batch waits until the one before it is accepted' },
      'max-in-flight': { value: 'COUNT', help: 'maximum deliveries at a time' },
      'max-attempts': { value: 'COUNT', help: 'after how many attempts a batch becomes a dead letter' },
      'max-age': { value: 'TIME', help: 'at which age a batch becomes a dead letter, such as 2h, or as ms' },
      signing: {
        value: 'true|ed25519|KEY|false',
        help: 'sign deliveries: with a key that is made and printed, or with your own whsec_…; or not',
      },
    },
    help: 'subscribe the client to these topics and no others',
    run: addSubscription,
  },
  {
    name: 'sub del',
    args: ['[TOPIC...]'],
    options: YES,
    help: 'unsubscribe the client from the topics; or, if none is given, from all, with its queue and its dead letters',
    run: deleteSubscription,
  },
  { name: 'sub list', help: 'list the subscriptions, as YAML', run: listSubscriptions },
  { name: 'sub show', args: ['TOKEN'], help: 'show a subscription', run: showSubscription },
  {
    name: 'sub pause',
    args: ['[TOKEN]'],
    help: 'stop the deliveries to the client, or to this subscriber (root), and keep everything',
    run: pauseSubscription,
  },
  {
    name: 'sub resume',
    args: ['[TOKEN]'],
    help: 'go on with the deliveries to the client, or to this subscriber (root)',
    run: resumeSubscription,
  },
  {
    name: 'pub',
    args: [
      'created|updated|deleted|noop TOPIC URL [--data JSON|@FILE|-] [--id TEXT] [--delay TIME] [--at DATE]',
      'TOPIC --ndjson FILE|-',
    ],
    options: {
      data: { value: 'JSON|@FILE|-', help: 'the data of the event' },
      id: { value: 'TEXT', help: 'the id of the event; made by the bus unless given' },
      delay: { value: 'TIME', help: 'publish it so much later, such as 30s or 2h, or as ms' },
      at: { value: 'DATE', help: 'publish it then: a date such as 2026-07-01T10:00Z' },
      ndjson: { value: 'FILE|-', help: 'a file with an event of the API, as JSON, in each line' },
    },
    help: 'publish an event, or those of a file in their order',
    run: publish,
  },
  {
    name: 'listen',
    args: ['TOPIC [TOPIC...]'],
    options: {
      'forward-to': {
        value: 'URL',
        help: 'POST each delivery there too, unsigned, with the user of the URL as its uuid',
      },
      port: { value: 'PORT', help: 'where to receive, on 127.0.0.1; 9292 unless given' },
      callback: { value: 'URL', help: 'where the bus reaches that port, if not on this machine' },
    },
    help: 'subscribe the client until Ctrl-C, and print each event; it must not have a subscription',
    run: listen,
  },
  {
    name: 'top',
    options: { once: { help: 'show it once, without rates of failed deliveries and of subscribers' } },
    help: 'show the whole bus until Ctrl-C: rates, the busiest topics, queues, subscribers that fail',
    run: top,
  },
  {
    name: 'tail',
    args: ['[TOPIC...]'],
    help: 'print events as they are accepted, until Ctrl-C: of these topics, or of all (root, viewer)',
    run: tail,
  },
  {
    name: 'audit',
    options: {
      since: SINCE,
      client: {
        value: 'NAME',
        help: 'only calls of this client, as the column CLIENT names it: by its token, if it has a secret',
      },
      action: { value: 'ACTION', help: 'only calls that do this, such as topic.delete' },
      target: {
        value: 'NAME',
        help: 'only calls about this client, topic or other thing, as the column TARGET names it',
      },
      limit: NEWEST,
    },
    help: 'list who has changed what, the newest first (root, viewer)',
    run: listAudit,
  },
  {
    name: 'topic list',
    options: {
      sort: {
        value: 'ORDER',
        help: 'by rate, the busiest first, or by name; shows how many events each gets a second',
      },
    },
    help: 'list the topics',
    run: listTopics,
  },
  {
    name: 'topic give',
    args: ['TOPIC TOKEN'],
    help: 'make the client with this token the publisher of a topic (root)',
    run: giveTopic,
  },
  {
    name: 'topic del',
    args: ['TOPIC'],
    options: YES,
    help: 'remove a topic, with its delayed events and the subscriptions of all clients (its publisher, root)',
    run: deleteTopic,
  },
  {
    name: 'trigger list',
    help: 'list the triggers of the client, or of all clients (root, viewer)',
    run: listTriggers,
  },
  {
    name: 'trigger show',
    args: ['NAME'],
    options: { client: ofClient('trigger', 'root, viewer') },
    help: 'show a trigger of the client',
    run: showTrigger,
  },
  {
    name: 'trigger put',
    args: ['NAME JSON|@FILE|-'],
    options: { client: ofClient('trigger') },
    help: 'make or change a trigger of the client; the JSON is that of PUT /triggers/NAME',
    run: putTrigger,
  },
  {
    name: 'trigger del',
    args: ['NAME'],
    options: { client: ofClient('trigger') },
    help: 'remove a trigger of the client',
    run: deleteTrigger,
  },
  {
    name: 'trigger fire',
    args: ['NAME'],
    options: { client: ofClient('trigger') },
    help: 'publish the event of a trigger of the client now, and print the id of the event',
    run: fireTrigger,
  },
  {
    name: 'join list',
    help: 'list the joins of the client, or of all clients (root, viewer)',
    run: listJoins,
  },
  {
    name: 'join show',
    args: ['NAME'],
    options: { client: ofClient('join', 'root, viewer') },
    help: 'show a join of the client, and its oldest open keys',
    run: showJoin,
  },
  {
    name: 'join put',
    args: ['NAME JSON|@FILE|-'],
    options: { client: ofClient('join') },
    help: 'make or change a join of the client; the JSON is that of PUT /joins/NAME',
    run: putJoin,
  },
  {
    name: 'join del',
    args: ['NAME'],
    options: { client: ofClient('join'), ...YES },
    help: 'remove a join of the client, with its open keys, its queue and its dead letters',
    run: deleteJoin,
  },
  {
    name: 'delivery list',
    options: {
      subscriber: LISTED_SUBSCRIBER,
      join: LISTED_JOIN,
      state: { value: 'STATE', help: 'open, ready, in_flight, retrying, paused, taken, dead or dropped' },
      since: SINCE,
      until: { ...SINCE, help: 'only from before this time, in the same forms' },
      limit: NEWEST,
    },
    help: 'list what became of each batch, the newest first',
    run: listDeliveries,
  },
  {
    name: 'delivery show',
    args: ['ID'],
    help: 'show a batch, by its webhook-id: its attempts, what it waits for, and its events',
    run: showDelivery,
  },
  {
    name: 'delivery retry',
    args: ['ID'],
    help: 'deliver a batch now that waits for its deadline or its next attempt',
    run: retryDelivery,
  },
  {
    name: 'delivery bury',
    args: ['ID'],
    help: 'give up a batch that waits: it becomes a dead letter, and those behind it go on',
    run: buryDelivery,
  },
  {
    name: 'dead list',
    options: { subscriber: LISTED_SUBSCRIBER, join: LISTED_JOIN },
    help: 'list the dead letters, the newest first',
    run: listDeadLetters,
  },
  { name: 'dead show', args: ['ID'], help: 'show a dead letter with its events', run: showDeadLetter },
  {
    name: 'dead retry',
    args: ['ID', '--all [--subscriber TOKEN]'],
    options: { all: ALL, subscriber: OF_SUBSCRIBER },
    help: 'deliver a dead letter again, or all; root must say whose by --subscriber',
    run: retryDeadLetters,
  },
  {
    name: 'dead purge',
    args: ['ID', '--all [--subscriber TOKEN] [--yes]'],
    options: { all: ALL, subscriber: OF_SUBSCRIBER, ...YES },
    help: 'remove a dead letter, or all; root must say whose by --subscriber',
    run: purgeDeadLetters,
  },
  {
    name: 'secret rotate',
    args: ['TOKEN'],
    options: {
      grace: {
        value: 'TIME',
        help: 'how long the old secret still works, such as 1h, or as ms; a day unless given',
      },
      'secret-at': {
        value: 'MS',
        help: 'replace only the secret of this time (secret_at of token list --json)',
      },
    },
    help: 'make a new secret for a client, and print it, and on stderr until when the old one works (root)',
    run: rotateSecret,
  },
  {
    name: 'verify',
    args: ['--secret S --headers F --body F|-'],
    options: {
      secret: { value: 'S', help: 'the signing secret, whsec_… or whpk_…' },
      headers: { value: 'F', help: 'a file with the headers of the delivery, one a line' },
      body: { value: 'F|-', help: 'a file with its body, byte for byte' },
    },
    help: 'say whether a delivery is genuine, or what is wrong',
    run: verify,
  },
  {
    name: 'doctor',
    help: 'check connection, TLS, clock, credentials, workers and callbacks, and say what to do',
    run: examine,
  },
  {
    name: 'completion',
    args: ['bash|zsh|fish'],
    help: 'print a script that completes commands; for bash: source <(rtm completion bash)',
    run: (call) => printCompletion(call, COMMANDS, COMMON_OPTIONS),
  },
  { name: '--version', help: 'print the version of rtm', run: printVersion },
];
