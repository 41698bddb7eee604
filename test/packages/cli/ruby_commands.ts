import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { ROOT_KEY, VIEWER_KEY } from '../../../harness/processes/bus_environment.ts';
import { until } from '../../../harness/until.ts';
import { bus } from './shared_bus.ts';
import { Terminal } from './terminal.ts';

const terminal = new Terminal();
const silent = { stdout: '', stderr: '', status: 0 };
let asRoot = '';

before(async () => {
  await bus.works;
  asRoot = `-b ${new URL(bus.url).host} -t ${ROOT_KEY}`;
});

/** Makes a client. Resolves with its token, and the options by which it calls the bus. */
async function client(name: string) {
  const { token, secret } = await bus.client(name);
  return { token, options: `-b ${new URL(bus.url).host} -t ${token}:${secret}` };
}

test('token add prints the token, token list shows it, token del removes it', async () => {
  const chosen = await terminal.rtmAlone(`token add billing token-of-billing ${asRoot}`);
  assert.deepEqual(chosen, { ...silent, stdout: 'token-of-billing\n' });
  const made = await terminal.rtm(`token add shop ${asRoot}`);
  assert.match(made.stdout, /^shop--[0-9a-z]{20}\n$/);
  assert.match(made.stderr, /^secret: [\w-]{32} \(shown only this once\)\n$/);

  const listed = await terminal.rtm(`token list ${asRoot}`);
  assert.ok(listed.stdout.includes('token-of-billing\tbilling\n'), listed.stdout);
  assert.ok(listed.stdout.includes(`${made.stdout.trim()}\tshop\n`), listed.stdout);

  const byName = await terminal.rtm(`token del billing ${asRoot}`);
  assert.deepEqual([byName.status, byName.stdout], [2, '']);
  assert.match(byName.stderr, /^client_not_found: .*the client billing has the token token-of-billing\n$/);
  assert.deepEqual(await terminal.rtm(`token del token-of-billing ${asRoot}`), {
    ...silent,
    stderr: 'removed the client billing\n',
  });
  const left = await terminal.rtm(`token list ${asRoot}`);
  assert.ok(!left.stdout.includes('billing'), left.stdout);
});

test('sub add, pub, sub list and sub del speak to the bus as the Ruby tool does', async (t) => {
  const receiver = await bus.receiver(t);
  const search = await client('search');
  const shop = await client('shop');
  const { callback } = receiver;
  const added = `sub add ${callback} orders users --latency 0 --batch-size 1 ${search.options}`;
  assert.deepEqual(await terminal.rtm(added), { ...silent, stderr: 'subscribed to orders, users\n' });

  const words = { created: 'create', updated: 'update', deleted: 'delete', noop: 'noop' };
  for (const [n, [word, type]] of Object.entries(words).entries()) {
    const line = `pub ${word} orders https://shop.example.com/orders/1 ${shop.options}`;
    assert.deepEqual(await terminal.rtm(line), silent);
    await until(() => receiver.events.length > n);
    assert.equal(receiver.events[n]?.type, type);
  }
  const uuid = `Basic ${btoa(`${search.token}:x`)}`;
  assert.ok(receiver.deliveries.every(({ headers }) => headers.authorization === uuid));

  await until(async () => (await terminal.rtm(`sub list ${search.options}`)).stdout.includes(':sent: 4'));
  const listed = await terminal.rtm(`sub list ${search.options}`);
  const yaml = `---
- :subscriber: ${search.token}
  :callback: ${callback}
  :topics:
  - orders
  - users
  :events:
    :sent: 4
    :queued: 0
    :oldest:
    :oldest_age:
  :state: healthy
  :health: 100
  :dead_letters:
    :batches: 0
    :events: 0
`;
  assert.deepEqual(listed, { ...silent, stdout: yaml });

  assert.deepEqual(await terminal.rtm(`sub del users ${search.options}`), silent);
  assert.doesNotMatch((await terminal.rtm(`sub list ${search.options}`)).stdout, /users/);
  assert.deepEqual(await terminal.rtm(`sub del ${search.options}`), {
    ...silent,
    stderr: 'removed the subscription, which had 1 topic\n',
  });
  assert.equal((await terminal.rtm(`sub list ${search.options}`)).stdout, '--- []\n');
});

test('sub list escapes in a callback what a terminal would obey', async () => {
  const { token, secret } = await bus.client('turning');
  const subscription = { topics: ['turned'], callback: 'https://turning.example.com/\u202emoc', uuid: 'me' };
  await bus.clientOf(token, secret).call('POST', '/subscription', subscription);
  const { stdout } = await terminal.rtm(`sub list ${asRoot}`);
  assert.match(stdout, /:callback: "https:\/\/turning.example.com\/\\u202emoc"\n/);
  await bus.clientOf(token, secret).call('DELETE', '/subscriber');
});

test('@NAME is looked up in .rtmrc', async () => {
  const { token, secret } = await bus.client('mailer');
  const host = new URL(bus.url).host;
  const rtmrc = `# our buses\nlocal:\n  bus: ${host}\n  token: '${ROOT_KEY}'\nmine:\n  bus: "${host}"\n  token: ${token}\n`;
  writeFileSync(join(terminal.folder, '.rtmrc'), rtmrc);
  assert.match((await terminal.rtm('token list -b @local')).stdout, /\tmailer\n/);
  assert.deepEqual(await terminal.rtm(`sub list -b @mine --secret ${secret}`), {
    ...silent,
    stdout: '--- []\n',
  });
  assert.deepEqual(await terminal.rtm('token list -b @other'), {
    stdout: '',
    stderr: "no_configuration: No configuration for bus 'other' found in .rtmrc, which has @local, @mine\n",
    status: 2,
  });
  const ofWindows = `\uFEFF${rtmrc.replace('# our buses\n', '').replaceAll('\n', '\r\n')}`;
  writeFileSync(join(terminal.folder, '.rtmrc'), ofWindows);
  assert.match((await terminal.rtm('token list -b @local')).stdout, /\tmailer\n/);
});

test('the token and its secret may be in the environment', async () => {
  const { token, secret } = await bus.client('env');
  const env = { ROUTEMASTER_TOKEN: token, ROUTEMASTER_SECRET: secret };
  const { stdout, status } = await terminal.rtmAlone(`sub list -b ${bus.url}`, { env });
  assert.deepEqual({ stdout, status }, { stdout: '--- []\n', status: 0 });
});

test('the environment may name the bus; --bus comes first', async () => {
  const env = { ROUTEMASTER_TOKEN: ROOT_KEY };
  const listed = await terminal.rtmAlone('token list', { env: { ...env, ROUTEMASTER_BUS: bus.url } });
  assert.deepEqual([listed.stderr, listed.status], ['', 0]);
  writeFileSync(join(terminal.folder, '.rtmrc'), `local:\n  bus: ${new URL(bus.url).host}\n`);
  const named = await terminal.rtmAlone('token list', { env: { ...env, ROUTEMASTER_BUS: '@local' } });
  assert.deepEqual(named, listed);
  const away = { ...env, ROUTEMASTER_BUS: 'ftp://bus.example.com' };
  assert.deepEqual(await terminal.rtmAlone(`token list -b ${bus.url}`, { env: away }), listed);
  const { stderr } = await terminal.rtmAlone('token list', { env: away });
  assert.match(stderr, /^bad_usage: ROUTEMASTER_BUS must be a domain, .*, not ftp:/);
  const unset = await terminal.rtmAlone('token list', { env: { ...env, ROUTEMASTER_BUS: '' } });
  assert.match(unset.stderr, /^bad_usage: No bus given: .*, or ROUTEMASTER_BUS\n/);
});

test('--json prints what the bus answers', async () => {
  const { stdout, stderr } = await terminal.rtm(`token add shop --json ${asRoot}`);
  assert.equal(stderr, '');
  const { token, secret } = JSON.parse(stdout);
  const listed = await terminal.rtm(`sub list --json -b ${bus.url} -t ${token}:${secret}`);
  assert.equal(listed.stdout, '[]\n');
});

test('wrong usage ends with 1, and says how it is right', async () => {
  const { stdout, stderr, status } = await terminal.rtm('');
  assert.deepEqual([stdout, status], ['', 1]);
  assert.match(stderr, /^Usage:\nrtm token add SERVICE \[TOKEN\] \[--publish TOPICS\] /);
  const help = 'rtm help lists all commands.';
  const ofDead = `After dead comes one of these: list, show, retry, purge. ${help}`;
  const unknown: [string, string][] = [
    ['foo', `There is no command foo. ${help}`],
    ['tokens', `There is no command tokens. Did you mean rtm token? ${help}`],
    ['publish created orders', `There is no command publish. Did you mean rtm pub? ${help}`],
    ['version', `There is no command version. Did you mean rtm --version? ${help}`],
    ['dead lst', `There is no command dead lst. Did you mean rtm dead list? ${ofDead}`],
    ['dead bury', `There is no command dead bury. ${ofDead}`],
    ['token', `After token comes one of these: add, limit, del, list. ${help}`],
    ['sub -b localhost', `After sub comes one of these: add, del, list, show, pause, resume. ${help}`],
    ['-b localhost top', `The command comes first, before -b. ${help}`],
  ];
  for (const [line, expected] of unknown)
    assert.deepEqual(
      await terminal.rtm(line),
      { stdout: '', stderr: `bad_usage: ${expected}\n`, status: 1 },
      line,
    );
  const usages: [string, RegExp][] = [
    ['token add', /^bad_usage: Wrong number of arguments: rtm token add SERVICE \[TOKEN\] /],
    ['token list more', /^bad_usage: Wrong number of arguments: rtm /],
    [
      'pub orders',
      /^bad_usage: Wrong number of arguments: a type, TOPIC and URL, or TOPIC and --ndjson FILE\n/,
    ],
    ['pub noop orders https://a.example.com/ more', /^bad_usage: Wrong number of arguments: rtm /],
    ['dead purge 1 --all', /^bad_usage: Wrong number of arguments: an ID, or --all\n/],
    ['sub add https://a.example.com/', /^bad_usage: Wrong number of arguments: rtm /],
    [
      'sub add https://a.example.com/ t --latency soon -b localhost -t x',
      /^bad_usage: --latency must be a whole number/,
    ],
    [
      'pub made orders https://a.example.com/ -b localhost -t x',
      /^bad_usage: The first argument must be one of created, updated, deleted, noop, not made\n/,
    ],
    ['token list --colour', /^bad_usage: There is no option --colour\n/],
    [
      'pub noop orders https://a.example.com/ --dta {}',
      /^bad_usage: There is no option --dta; did you mean --data\?\n/,
    ],
    ['top --onec', /^bad_usage: There is no option --onec; did you mean --once\?\n/],
    ['token list --bsu localhost', /^bad_usage: There is no option --bsu; did you mean --bus\?\n/],
    ['token list -x', /^bad_usage: There is no option -x\n/],
    [
      'token list --bus --json',
      /^bad_usage: --bus needs a value; if it begins with a dash, write --bus=-…\n/,
    ],
    ['token list -t -key', /^bad_usage: --token needs a value; if it .*, write --token=-…\n/],
    ['token list -b', /^bad_usage: --bus needs a value\n/],
    ['pub noop orders https://a.example.com/ --data=', /^bad_usage: --data is empty; give JSON\n/],
    [
      'listen orders --forward-to localhost -b localhost -t x',
      /^bad_usage: --forward-to must be a URL, .*, not localhost\n/,
    ],
    ['token list', /^bad_usage: No bus given/],
    ['token list -b localhost', /^bad_usage: No token given: .*, or --bus @NAME of \.rtmrc\n/],
    [
      'token list -b http://bus.example.com -t x',
      /^bad_usage: plain http is only for a bus on this machine, not bus.example.com: write https:/,
    ],
    [
      'token list -b HTTP://bus.example.com -t x',
      /^bad_usage: plain http is only for a bus on this machine, not bus.example.com: write https:/,
    ],
    [
      'token list -b ftp://bus.example.com -t x',
      /^bad_usage: --bus must be a domain, or @NAME of .rtmrc, not ftp:/,
    ],
    [
      'token list -b http://127.0.0.1:1/console/topics -t x',
      /^bad_usage: --bus must be the address of the bus alone: leave out \/console\/topics\n/,
    ],
    [
      'token list -b bus.example.com/?a=1 -t x',
      /^bad_usage: --bus must be the address of the bus alone: leave out \?a=1\n/,
    ],
  ];
  for (const [line, expected] of usages) {
    const { stderr, status } = await terminal.rtm(line);
    assert.match(stderr, expected, line);
    assert.match(stderr, /^.+\nrtm [a-z]+( [a-z]+)? --help says more\.\n$/, line);
    assert.equal(status, 1, line);
  }
});

test('an empty argument or token, as of a variable that is not set, is wrong usage', async () => {
  const [variable, at] = ['is its variable set in the environment?', ['-b', bus.url, '-t']];
  for (const [args, said] of [
    [['dead', 'purge', '', ...at, ROOT_KEY], `An argument is empty; ${variable}`],
    [['token', 'list', ...at, ''], `The token is empty; ${variable}`],
    [['token', 'list', ...at, ':secret'], `The token is empty; ${variable}`],
  ] as const) {
    const { stderr, status } = await terminal.rtm(args);
    const help = `rtm ${args.slice(0, 2).join(' ')} --help says more.`;
    assert.deepEqual([stderr, status], [`bad_usage: ${said}\n${help}\n`, 1]);
  }
});

test('what the bus refuses ends with 2, and its code is on stderr', async () => {
  const refused = await terminal.rtm(`token list -b ${bus.url} -t wrong`);
  const advice = 'give the root key or the viewer key, by --token, ROUTEMASTER_TOKEN or .rtmrc';
  assert.equal(
    refused.stderr,
    `unauthenticated: the bus refuses these credentials for this call: ${advice}\n`,
  );
  assert.deepEqual([refused.stdout, refused.status], ['', 2]);
  const paired = await terminal.rtm(`token list -b ${bus.url} -t root:${ROOT_KEY}`);
  assert.equal(
    paired.stderr,
    `${refused.stderr.trimEnd()}; the root key is the whole token, without root before it\n`,
  );
});

test('a command that takes the credentials of another role says whose, and how to get them', async () => {
  const { options } = await client('shop');
  const from = 'by --token, ROUTEMASTER_TOKEN or .rtmrc';
  const clients =
    `forbidden: the credentials are right, but not for this call: give a client's TOKEN:SECRET, ${from}; ` +
    'root makes a client with rtm token add SERVICE';
  const event = '{"type":"noop","url":"https://shop.example.com/1"}';
  for (const line of [
    'pub created orders https://shop.example.com/1',
    'listen orders --port 0',
    'sub add https://a.example.com/ orders',
    'sub del',
  ])
    assert.deepEqual(await terminal.rtm(`${line} ${asRoot}`), {
      stdout: '',
      stderr: `${clients}\n`,
      status: 2,
    });
  const lines = await terminal.rtm(`pub orders --ndjson - ${asRoot}`, { stdin: event });
  assert.equal(lines.stderr, `${clients} (0 events before are stored)\n`);

  const role = 'forbidden: the credentials are right, but not for this call: give';
  for (const [line, stderr] of [
    [`token list ${options}`, `${role} the root key or the viewer key, ${from}\n`],
    [`token add shop ${options}`, `${role} the root key, ${from}\n`],
    [
      `topic del orders -b ${bus.url} -t ${VIEWER_KEY}`,
      `${role} a client's TOKEN:SECRET or the root key, ${from}\n`,
    ],
  ] as const)
    assert.equal((await terminal.rtm(line)).stderr, stderr);
});

test('help goes to stdout', async () => {
  const { stdout, stderr, status } = await terminal.rtm('pub --help');
  assert.match(stdout, /^Usage:\nrtm pub /);
  assert.deepEqual([stderr, status], ['', 0]);
  assert.deepEqual(await terminal.rtm('help pub'), { stdout, stderr, status });
  const trigger = await terminal.rtm('trigger --help');
  assert.deepEqual(await terminal.rtm('help trigger'), trigger);
  assert.match(trigger.stdout, /^Usage:\nrtm trigger list\n/);
  assert.match(trigger.stdout, /\nrtm trigger fire NAME /);
  assert.doesNotMatch(trigger.stdout, /rtm (?!trigger)/);
  assert.deepEqual([trigger.stderr, trigger.status], ['', 0]);
  const limits = (await terminal.rtm('token limit --help')).stdout;
  assert.match(limits, /--publish TOPICS +what it may publish to, .*; - means nothing, '\*' any topic$/m);
  assert.match(limits, /--subscribe TOPICS +what it may subscribe to, /);

  const verify = (await terminal.rtm('verify --help')).stdout;
  assert.deepEqual(verify.match(/^ +--secret .*$/gm), [
    '    --secret S   the signing secret, whsec_… or whpk_…',
  ]);
});
