import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { VIEWER_KEY } from '../../../harness/processes/bus_environment.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus, client } from './shared_bus.ts';
import { silent, terminal } from './shared_terminal.ts';

test('sub add says which topics the client gets now, and which it gets no longer', async (t) => {
  const { callback } = await bus.receiver(t);
  const { options } = await client('replacing');
  for (const [topics, said] of [
    ['sofas beds', 'subscribed to sofas, beds'],
    ['sofas beds lamps', 'subscribed to sofas, beds, lamps'],
    ['lamps rugs', 'subscribed to lamps, rugs, and no longer to beds, sofas'],
  ]) {
    const added = await terminal.rtm(`sub add ${callback} ${topics} ${options}`);
    assert.deepEqual(added, { ...silent, stderr: `${said}\n` });
  }
});

test('sub add gives a new subscription the token as uuid, and leaves that of another as it is', async (t) => {
  const { callback } = await bus.receiver(t);
  const { token, options } = await client('lasting');
  const uuidAfter = async (more: string) => {
    await terminal.rtm(`sub add ${callback} sofas ${options} ${more}`);
    const { stdout } = await terminal.rtm(`sub show ${token} ${options}`);
    return /^uuid +(.*)$/m.exec(stdout)?.[1];
  };
  assert.equal(await uuidAfter(''), token);
  // A receiver that knows this uuid would answer 401 if the next command replaced it.
  assert.equal(await uuidAfter('--uuid my-password'), 'my-password');
  assert.equal(await uuidAfter('--latency 0'), 'my-password');
});

test('sub add sets what the API can set, and prints a signing key that was made', async (t) => {
  const { callback } = await bus.receiver(t);
  const { token, options } = await client('setting');
  const add = (more: string) => terminal.rtm(`sub add ${callback} sofas ${options} ${more}`);
  const limits = '--max-bytes 2048 --max-in-flight 2 --max-attempts 3 --max-age 2h';
  const made = await add(`--ordered true --signing true ${limits}`);
  assert.match(made.stdout, /^whsec_\S+\n$/);
  const shown = async () => JSON.parse((await terminal.rtm(`sub show ${token} --json ${options}`)).stdout);
  const { ordered, signing, max_bytes, max_in_flight, max_attempts, max_age } = await shown();
  assert.deepEqual([ordered, signing, max_bytes, max_in_flight], [true, 'v1', 2048, 2]);
  assert.deepEqual([max_attempts, max_age], [3, 7_200_000]);
  assert.match((await add('--signing ed25519 --ordered false')).stdout, /^whpk_\S+\n$/);
  const changed = await shown();
  assert.deepEqual([changed.ordered, changed.signing, changed.max_attempts], [false, 'v1a', 3]);
  assert.equal((await add('--signing false')).stdout, '');
  assert.equal((await shown()).signing, null);
  assert.match((await add('--signing mine')).stderr, /^bad_subscription: signing_secret: must be true, /);
  assert.match((await add('--ordered yes')).stderr, /^bad_usage: --ordered must be true or false, not yes\n/);
});

test('sub show needs no list of all subscribers, which the bus refuses while a partition is away', async (t) => {
  const web = createServer(({ url }, response) => {
    response.writeHead(url === '/subscribers/shop' ? 200 : 503, { 'content-type': 'application/json' });
    response.end('{"subscriber":"shop"}');
  });
  t.after(() => web.close());
  const shown = await terminal.rtm(`sub show shop -b 127.0.0.1:${await listenLocally(web)} -t x`);
  assert.deepEqual(shown, { ...silent, stdout: 'subscriber  shop\n' });
});

test('sub show writes times as dates, also those within other figures', async (t) => {
  const { subscriber, publisher, topic } = await bus.scene(t);
  await terminal.rtm(`sub pause ${subscriber.token} ${asRoot()}`);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  const { stdout } = await terminal.rtm(`sub show ${subscriber.token} ${asRoot()}`);
  assert.match(stdout, /^paused_at +20\d\d-\d\d-\d\dT.*Z$/m);
  assert.match(stdout, /^events\.queued +1$/m);
  assert.match(stdout, /^events\.oldest +20\d\d-\d\d-\d\dT.*Z$/m);
  assert.match(stdout, /^dropped +-$/m);
  await subscriber.call('DELETE', '/subscriber');
});

test('sub, topic and secret do as the API', async (t) => {
  const { subscriber, topic, publisher, receiver } = await bus.scene(t);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  await until(() => receiver.events.length === 1);
  assert.deepEqual(await terminal.rtm(`sub pause ${subscriber.token} ${asRoot()}`), silent);
  assert.match(
    (await terminal.rtm(`sub show ${subscriber.token} ${asRoot()}`)).stdout,
    /^paused_by +operator$/m,
  );
  assert.deepEqual(await terminal.rtm(`sub resume ${subscriber.token} ${asRoot()}`), silent);
  for (const each of ['pause', 'resume']) {
    const { stderr } = await terminal.rtm(`sub ${each} ${asRoot()}`);
    assert.equal(
      stderr,
      'forbidden: only a client can leave TOKEN out; root must give the TOKEN of a client\n',
    );
  }
  assert.match((await terminal.rtm(`sub show nobody ${asRoot()}`)).stderr, /^subscriber_not_found: /);

  const topics = await terminal.rtm(`topic list ${asRoot()}`);
  assert.match(topics.stdout, /^TOPIC +PUBLISHER +EVENTS\n/);
  assert.match(topics.stdout, new RegExp(`^${topic} +publisher--\\w+ +1$`, 'm'));
  const rated = new RegExp(
    `^TOPIC +PUBLISHER +EVENTS +EVENTS/S\n(.*\n)*${topic} +publisher--\\w+ +1 +0\\.\\d\n`,
  );
  await until(async () => rated.test((await terminal.rtm(`topic list --sort rate ${asRoot()}`)).stdout));
  const wrong = await terminal.rtm(`topic list --sort size ${asRoot()}`);
  assert.match(wrong.stderr, /^bad_query: sort must be one of name, rate\b/);
  assert.deepEqual(await terminal.rtm(`topic give ${topic} ${subscriber.token} ${asRoot()}`), silent);
  assert.match(
    (await terminal.rtm(`topic list ${asRoot()}`)).stdout,
    new RegExp(`^${topic} +${subscriber.token} `, 'm'),
  );
  assert.match((await terminal.rtm(`topic give ${topic} nobody ${asRoot()}`)).stderr, /^client_not_found: /);
  assert.deepEqual(await terminal.rtm(`topic del ${topic} ${asRoot()}`), {
    ...silent,
    stderr: `removed the topic ${topic}, which had 1 subscriber\n`,
  });

  const rotated = await terminal.rtm(`secret rotate ${subscriber.token} --grace 0 ${asRoot()}`);
  const options = `-b ${bus.url} -t ${subscriber.token}:${rotated.stdout.trim()}`;
  assert.equal((await terminal.rtm(`sub list ${options}`)).status, 0);
});

test('secret rotate says until when the old secret works, and takes a duration', async () => {
  const { token } = await client('graceful');
  const rotate = (grace: string) => terminal.rtm(`secret rotate ${token} --grace ${grace} ${asRoot()}`);
  const before = Date.now();
  const { stderr } = await rotate('1h');
  const [, until = ''] = /^the old secret still works until (\S+Z)\n$/.exec(stderr) ?? [];
  const afterMs = Date.parse(until) - 3_600_000;
  assert.ok(before <= afterMs && afterMs <= Date.now(), stderr);
  assert.match((await rotate('60000')).stderr, /^the old secret still works until /);
  assert.equal((await rotate('0s')).stderr, 'the old secret has ended\n');
  assert.match(
    (await rotate('soon')).stderr,
    /^bad_usage: --grace must be a duration such as 30s, .*, not soon\n/,
  );
});

test('secret rotate replaces only the secret of a given time', async () => {
  const { token } = await client('rotated');
  const { stdout } = await terminal.rtm(`token list --json ${asRoot()}`);
  const { secret_at } = JSON.parse(stdout).find((each: { token: string }) => each.token === token);
  const rotate = `secret rotate ${token} --secret-at ${secret_at} ${asRoot()}`;
  assert.match((await terminal.rtm(rotate)).stdout, /^[\w-]{32}\n$/);
  // A repeat, as after a lost answer, would end the secret that the client may use by now.
  const repeat = await terminal.rtm(rotate);
  assert.deepEqual([repeat.status, repeat.stdout], [2, '']);
  assert.match(repeat.stderr, /^bad_client: the secret was replaced after that time/);
});

test('token limit replaces the topics that a client may use', async () => {
  const { token, options } = await client('limited');
  const limited = async () => {
    const [line = ''] = (await terminal.rtm(`token list --json ${asRoot()}`)).stdout.split('\n');
    const { publish, subscribe } = JSON.parse(line).find((each: { token: string }) => each.token === token);
    return { publish, subscribe };
  };
  const limit = `token limit ${token} ${asRoot()}`;
  const said = (text: string) => ({ ...silent, stdout: `${token} ${text}\n` });
  assert.deepEqual(
    await terminal.rtm(`${limit} --publish orders,shop_* --subscribe -`),
    said('may publish to orders,shop_*, and may subscribe to no topic'),
  );
  assert.deepEqual(await limited(), { publish: ['orders', 'shop_*'], subscribe: [] });
  assert.deepEqual(
    await terminal.rtm(`${limit} --publish - --subscribe orders`),
    said('may publish to no topic, and may subscribe to orders'),
  );
  assert.deepEqual(await limited(), { publish: [], subscribe: ['orders'] });
  // A web process may know the former limits for a second.
  const publish = `pub created beyond_limits https://shop.example.com/1 ${options}`;
  await until(async () => /^forbidden: /.test((await terminal.rtm(publish)).stderr));
  await terminal.rtm(`${limit} --publish *`);
  assert.deepEqual(await limited(), { publish: undefined, subscribe: ['orders'] });
  assert.match((await terminal.rtm(limit)).stderr, /^bad_usage: Give --publish, --subscribe or both; '\*' /);
});

test('token limit leaves a list without an option as it is, and says what has ended', async (t) => {
  const { callback } = await bus.receiver(t);
  const { token, options } = await client('narrowed');
  const rules = '{"sources":[{"topic":"invoices"}],"by":"url","then":{"topic":"billed"}}';
  await terminal.rtm(`join put bills ${rules} ${options}`);
  await terminal.rtm(`sub add ${callback} orders invoices ${options}`);
  await terminal.rtm(`token limit ${token} --publish billed,bills ${asRoot()}`);
  const limited = await terminal.rtm(`token limit ${token} --subscribe orders,orders_* ${asRoot()}`);
  assert.deepEqual(limited, {
    ...silent,
    stdout: `${token} may publish to billed,bills, and may subscribe to orders,orders_*\n`,
    stderr: 'ended its subscriptions to invoices\nremoved its joins bills\n',
  });
  const limits = 'may publish to billed,bills\tmay subscribe to orders,orders_*';
  const { stdout } = await terminal.rtm(`token list ${asRoot()}`);
  assert.ok(stdout.includes(`${token}\tnarrowed\t${limits}\n`), stdout);
  await terminal.rtm(`sub del ${options}`);
});

test('token del removes what is left of a client whose removal was cut off', async (t) => {
  const { subscriber } = await bus.scene(t);
  await bus.store.run('remove_client', { token: subscriber.token });
  const again = await terminal.rtm(`token del ${subscriber.token} ${asRoot()}`);
  assert.match(again.stderr, /^client_not_found: no client has the token /);
  assert.equal(await bus.store.redis.sismember(bus.store.keys.subscribers(), subscriber.token), 0);
});

test('token add limits a new client at once', async () => {
  const add = `token add narrow --publish orders,shop_* --subscribe - --json ${asRoot()}`;
  const { stdout } = await terminal.rtm(add);
  const { name, publish, subscribe } = JSON.parse(stdout);
  assert.deepEqual(
    { name, publish, subscribe },
    { name: 'narrow', publish: ['orders', 'shop_*'], subscribe: [] },
  );
  const refused = await terminal.rtm(`token add narrow --publish Orders ${asRoot()}`);
  assert.match(refused.stderr, /^bad_client: publish\.0 must be a topic name/);
  assert.deepEqual([refused.stdout, refused.status], ['', 2]);
  const empty = await terminal.rtm(`token add narrow --publish= ${asRoot()}`);
  assert.match(empty.stderr, /^bad_usage: --publish must name topics, .* or be - for none/);
});

/** Commands that take the token of a client, written CLIENT, with the code of their errors if there is no such client. */
const ABOUT_CLIENTS = [
  ['token limit CLIENT --publish named,orders_ready', 'client_not_found: '],
  ['secret rotate CLIENT', 'client_not_found: '],
  ['sub pause CLIENT', 'subscriber_not_found: '],
  ['sub resume CLIENT', 'subscriber_not_found: '],
  ['sub show CLIENT', 'subscriber_not_found: '],
  ['dead retry --all --subscriber CLIENT', 'subscriber_not_found: '],
  ['dead purge --all --subscriber CLIENT', 'subscriber_not_found: '],
  [
    'join put order {"sources":[{"topic":"paid"}],"by":"url","then":{"topic":"orders_ready"}} --client CLIENT',
    'client_not_found: ',
  ],
  ['join show order --client CLIENT', 'join_not_found: '],
  ['join del order --client CLIENT', 'join_not_found: '],
  ['trigger show daily --client CLIENT', 'trigger_not_found: '],
  ['trigger del daily --client CLIENT', 'trigger_not_found: '],
  ['trigger fire daily --client CLIENT', 'client_not_found: '],
  ['dead list --subscriber CLIENT', ''],
  ['delivery list --subscriber CLIENT', ''],
  ['audit --client CLIENT', ''],
] as const;

test('a command for root takes the name of a client that alone has it', async (t) => {
  const { topic, subscriber, publisher } = await bus.scene(t);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  // The clients of a scene share their names with those of other scenes.
  const { callback } = await bus.receiver(t);
  const { token, options } = await client('named_once');
  await terminal.rtm(`sub add ${callback} ${topic} ${options}`);
  const schedule = `{"topic":"named","event":{"type":"noop","url":"https://a.example.com/"},"schedule":{"every":9000000}}`;
  await terminal.rtm(`trigger put daily ${schedule} ${options}`);
  await terminal.rtm(`topic give ${topic} named_once ${asRoot()}`);
  const [shown] = JSON.parse((await terminal.rtm(`topic list --json ${asRoot()}`)).stdout).filter(
    ({ name }: { name: string }) => name === topic,
  );
  assert.equal(shown.publisher, token);
  for (const [command] of ABOUT_CLIENTS.filter(([each]) => !/trigger del/.test(each))) {
    const line = `${command.replace('CLIENT', 'named_once')} ${asRoot()}`;
    const { stderr, status } = await terminal.rtm(line);
    assert.equal(status, 0, `${line}: ${stderr}`);
    if (command.startsWith('audit')) continue;
    assert.doesNotMatch(stderr, /no client has/);
  }
  const paused = await terminal.rtm(`sub pause named_once ${asRoot()}`);
  assert.deepEqual(paused, silent);
  assert.match((await terminal.rtm(`sub show ${token} ${asRoot()}`)).stdout, /^paused_by +operator$/m);
  const audit = await terminal.rtm(`audit --client named_once --action subscription.put ${asRoot()}`);
  assert.match(audit.stdout, new RegExp(` client +${token} +subscription.put `));
  const viewed = await terminal.rtm(`sub show named_once -b ${bus.url} -t ${VIEWER_KEY}`);
  assert.match(viewed.stdout, new RegExp(`^subscriber +${token}$`, 'm'));
  assert.match((await terminal.rtm(`sub show named_once ${options}`)).stderr, /^subscriber_not_found: /);
  const kept = await terminal.rtm(`sub show ${subscriber.token} ${asRoot()}`);
  assert.match(kept.stdout, /^paused_by +-$/m);
  // The doctor would find it paused.
  await terminal.rtm(`sub del ${options}`);
});

test('a command for root says where the tokens and topics are, if it gets a name of several clients or a wrong one', async (t) => {
  const { topic, publisher } = await bus.scene(t);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  const tokens = [(await client('twins')).token, (await client('twins')).token].sort();
  const named = `2 clients have the name twins: give the token of one, ${tokens.join(' or ')}\n`;
  const unknown = 'no client has the token or the name nobody; rtm token list has all\n';
  for (const [command, code] of [
    ...ABOUT_CLIENTS,
    [`topic give ${topic} CLIENT`, 'client_not_found: '],
  ] as const) {
    const saidOf = async (name: string) =>
      (await terminal.rtm(`${command.replace('CLIENT', name)} ${asRoot()}`)).stderr;
    assert.ok((await saidOf('twins')).includes(`${code}${named}`), await saidOf('twins'));
    assert.ok((await saidOf('nobody')).includes(`${code}${unknown}`), await saidOf('nobody'));
    if (/subscriber|sub /.test(command))
      assert.doesNotMatch(await saidOf(tokens[0] ?? ''), /the name|token list/);
  }
  const noTopic = 'topic_not_found: there is no topic nothing; rtm topic list shows all topics\n';
  for (const command of [`topic give nothing ${tokens[0]}`, 'topic del nothing'])
    assert.equal((await terminal.rtm(`${command} ${asRoot()}`)).stderr, noTopic);
});

test('a secret behind a token that names a client is not sent to the bus', async () => {
  const pair = 'shop--psbsfvxhjewnxiczhqc0:JstIQF8oA-2oVgFXIZlV9O4kqU25YRCH';
  for (const command of [`sub show ${pair}`, `token del ${pair}`, `dead list --subscriber ${pair}`]) {
    const { stderr, status } = await terminal.rtm(`${command} ${asRoot()}`);
    assert.match(stderr, /^bad_usage: Name a client by its token alone, without its secret: only --token /);
    assert.equal(status, 1);
  }
});

test('token add and secret rotate say what may have been done if the answer is lost', async (t) => {
  const web = createServer((_, response) => void response.socket?.destroy());
  t.after(() => web.close());
  const at = `-b 127.0.0.1:${await listenLocally(web)} -t x`;
  const added = await terminal.rtm(`token add shop ${at}`);
  assert.match(
    added.stderr,
    /^no_connection: .*; the client may have been created, .*: rtm token list shows it,/,
  );
  const rotated = await terminal.rtm(`secret rotate shop ${at}`);
  assert.match(
    rotated.stderr,
    /^no_connection: .*; the secret may have been replaced: see secret_at in rtm token/,
  );
});

test('token add writes what may have been done behind what the bus says', async (t) => {
  const web = createServer((_, response) => {
    response.writeHead(503, { 'content-type': 'application/problem+json' });
    response.end('{"code":"storage_unavailable","title":"The storage","detail":"It may be stored."}');
  });
  t.after(() => web.close());
  const added = await terminal.rtm(`token add shop -b 127.0.0.1:${await listenLocally(web)} -t x`);
  assert.match(added.stderr, /^storage_unavailable: It may be stored; the client may have been created,/);
});
