import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { selfSigned } from '../../../harness/http/certificates.ts';
import { answer } from '../../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { freePort, listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { bus } from './shared_bus.ts';
import { Terminal } from './terminal.ts';

const terminal = new Terminal();
/** JSON with numbers that JavaScript would round, and strings that look like such numbers. */
const LONG =
  '{"a":[12345678901234567890,-9223372036854775808,0.1234567890123456],"b\\"9007199254740993":"9007199254740993"}';
const silent = { stdout: '', stderr: '', status: 0 };
const asRoot = () => `-b ${bus.url} -t ${ROOT_KEY}`;

async function client(name: string) {
  const { token, secret } = await bus.client(name);
  return { token, options: `-b ${bus.url} -t ${token}:${secret}` };
}

function write(name: string, text: string): void {
  writeFileSync(join(terminal.folder, name), text);
}

test('pub takes data, and a file of events, whose bad line it names', async (t) => {
  const { topic, receiver } = await bus.scene(t, { max: 10_000 });
  const shop = await client('shop');
  const event = (n: number) => JSON.stringify({ type: 'noop', url: `https://shop.example.com/${n}` });

  const one = await terminal.rtmAlone(
    `pub noop ${topic} https://shop.example.com/d --data - ${shop.options}`,
    {
      stdin: '{"a":[12345678901234567890]}',
    },
  );
  assert.deepEqual(one, silent);
  await until(() => receiver.events.length === 1);
  assert.match(receiver.deliveries[0]?.body ?? '', /"data":\{"a":\[12345678901234567890\]\}/);

  write('good.ndjson', `${Array.from({ length: 7000 }, (_, n) => event(n)).join('\n')}\n`);
  const all = await terminal.rtmAlone(`pub ${topic} --ndjson good.ndjson ${shop.options}`);
  assert.match(all.stdout, /^7,000 events in \d+\.\d s, [\d,]+ a second\n$/);
  assert.deepEqual([all.stderr, all.status], ['', 0]);
  await until(() => receiver.events.length === 7001);
  assert.equal(receiver.urls[7000], 'https://shop.example.com/6999');

  for (const [bad, why] of [
    ['{"type":"noop"}', 'bad_event: line 3: url must be a string'],
    ['{', 'bad_body: line 3: it is not one event'],
  ] as const) {
    const lines = { stdin: `${event(1)}\n\n${bad}\n` };
    const { stderr, status } = await terminal.rtm(`pub ${topic} --ndjson - ${shop.options}`, lines);
    assert.ok(stderr.startsWith(why), stderr);
    assert.match(stderr, / \(0 events before are stored\)\n$/);
    assert.equal(status, 2);
  }
});

test('pub says that nobody subscribes to the topic, and of a file once', async () => {
  const shop = await client('shop');
  const stderr = 'nobody subscribes to prodcts: events published to it go to nobody\n';
  const one = await terminal.rtmAlone(`pub created prodcts https://shop.example.com/1 ${shop.options}`);
  assert.deepEqual(one, { ...silent, stderr });
  const lines = { stdin: '{"type":"noop","url":"https://shop.example.com/1"}\n'.repeat(2) };
  const file = await terminal.rtm(`pub prodcts --ndjson - ${shop.options}`, lines);
  assert.match(file.stdout, /^2 events in /);
  assert.deepEqual([file.stderr, file.status], [stderr, 0]);
});

test('pub says nothing of subscribers if the bus does not tell of them', async (t) => {
  const other = await bus.receiver(t);
  let told = answer.status(204);
  other.usual = (response, { method }) => (method === 'POST' ? answer.status(204) : told)(response);
  const line = `pub created orders https://shop.example.com/1 -b ${new URL(other.callback).origin} -t shop`;
  for (const status of [204, 401, 403, 404, 500]) {
    told = answer.status(status);
    assert.deepEqual(await terminal.rtm(line), silent, String(status));
  }
  assert.equal(other.deliveries.at(-1)?.path, '/topics/orders');
});

test('pub names a line that is not one event, and publishes nothing of its request', async (t) => {
  const { topic, receiver } = await bus.scene(t);
  const shop = await client('shop');
  const event = '{"type":"noop","url":"https://shop.example.com/1"}';
  const half = event.length / 2;
  const broken = `${event.slice(0, half)}\n${event.slice(half)}`;
  for (const bad of [`${event},${event}`, `${event}${event}`, `[${event},${event}]`, broken, '"x"', 'null']) {
    const lines = { stdin: `${event}\n\n${bad}\n${event}\n` };
    const { stderr, status } = await terminal.rtm(`pub ${topic} --ndjson - ${shop.options}`, lines);
    assert.match(stderr, /^bad_body: line 3: it is not one event.* \(0 events before are stored\)\n$/, bad);
    assert.equal(status, 2);
  }
  const good = await terminal.rtm(`pub ${topic} --ndjson - ${shop.options}`, { stdin: event });
  assert.match(good.stdout, /^1 events in /);
  await until(() => receiver.events.length > 0);
  assert.equal(receiver.events.length, 1);
});

test('pub reads a long line in linear time, and refuses one that no request has room for', async () => {
  const shop = await client('shop');
  const line = `{"type":"noop","url":"https://shop.example.com/1","data":"${'x'.repeat(20_000_000)}`;
  const { stderr, status } = await terminal.rtmAlone(`pub giants --ndjson - ${shop.options}`, {
    stdin: `\n${line}`,
  });
  assert.equal(
    stderr,
    'body_too_large: line 2: it has more than the 5 MiB of a request (0 events before are stored)\n',
  );
  assert.equal(status, 2);
});

test('pub refuses data beside a file of events, which has data of its own', async () => {
  const { options } = await client('shop');
  const { stderr, status } = await terminal.rtm(`pub beside --ndjson - --data {} ${options}`, {
    stdin: '{"type":"noop","url":"https://shop.example.com/1"}',
  });
  assert.match(stderr, /^bad_usage: --data is for one event; .*\nrtm pub --help says more\.\n$/);
  assert.equal(status, 1);
});

test('pub refuses a topic that would lead to another path', async () => {
  const { options } = await client('shop');
  for (const line of ['pub noop .. https://shop.example.com/1', 'pub .. --ndjson -']) {
    const { stderr, status } = await terminal.rtm(`${line} ${options}`, { stdin: '{}' });
    assert.deepEqual({ stderr, status }, { stderr: 'TypeError: topic must not be ..\n', status: 2 }, line);
  }
});

test('pub refuses a file that is not UTF-8', async () => {
  const shop = await client('shop');
  const line = '{"type":"noop","url":"https://shop.example.com/1","data":"M\u00fcller"}\n';
  writeFileSync(join(terminal.folder, 'latin1'), line, 'latin1');
  const lines = await terminal.rtm(`pub latin --ndjson latin1 ${shop.options}`);
  assert.deepEqual(
    [lines.stderr, lines.status],
    ['bad_body: the lines are not UTF-8 (0 events before are stored)\n', 2],
  );
  const data = await terminal.rtm(`pub noop latin https://shop.example.com/1 --data @latin1 ${shop.options}`);
  assert.match(data.stderr, /--data is not JSON: .*not valid for encoding utf-8/);
});

test('pub shows on a terminal how far it is', async (t) => {
  const { topic } = await bus.scene(t, { max: 10_000 });
  const shop = await client('shop');
  const event = JSON.stringify({ type: 'noop', url: 'https://shop.example.com/1' });
  write('many.ndjson', `${event}\n`.repeat(30_000));
  const screen = terminal.rtmOnScreen(`pub ${topic} --ndjson many.ndjson ${shop.options}`);
  t.after(() => screen.kill('SIGKILL'));
  let text = '';
  screen.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  const [status] = await once(screen, 'close');
  assert.equal(status, 0, text);
  const [bar, summary] = text.split('\x1b[K');
  assert.match(bar ?? '', /^\r\[#+ *\] [\d,]+ events/);
  assert.match(summary ?? '', /^30,000 events in \d+\.\d s, [\d,]+ a second\r\n$/);
});

test('pub sends fewer events at once if the bus does not take so many', async () => {
  const shop = await client('shop');
  const event = (n: number, more = {}) =>
    JSON.stringify({ type: 'noop', url: `https://a.example/${n}`, ...more });
  // More than the 500 delayed events that the bus takes in a request.
  const lines = Array.from({ length: 1200 }, (_, n) => event(n, { delay: 3_600_000 }));
  write('later.ndjson', lines.join('\n'));
  const all = await terminal.rtm(`pub later --ndjson later.ndjson ${shop.options}`);
  assert.match(all.stdout, /^1,200 events in /);
  const topics = (await bus.root.call('GET', '/topics')) as { name: string; delayed: number }[];
  assert.equal(topics.find(({ name }) => name === 'later')?.delayed, 1200);
  lines[900] = event(900, { type: 'other' });
  write('later.ndjson', lines.join('\n'));
  const { stderr } = await terminal.rtm(`pub later_bad --ndjson later.ndjson ${shop.options}`);
  assert.match(stderr, /^bad_event: line 901: .* \(0 events before are stored\)\n$/);
});

test('pub sends fewer bytes at once if a router in front of the bus does not take so many', async (t) => {
  const router = await bus.receiver(t);
  router.usual = (response, { body }) =>
    void response.writeHead(body.length > 1000 ? 413 : 204, { 'content-type': 'text/html' }).end('');
  const options = `-b ${new URL(router.callback).origin} -t shop`;
  const event = (data: string) => JSON.stringify({ type: 'noop', url: 'https://a.example/1', data });
  write('short.ndjson', `${event('x')}\n`.repeat(100));
  assert.match((await terminal.rtm(`pub orders --ndjson short.ndjson ${options}`)).stdout, /^100 events in /);
  write('long.ndjson', `\n${event('x')}\n${event('x'.repeat(1000))}\n${event('x')}\n`);
  const { stderr, status } = await terminal.rtm(`pub orders --ndjson long.ndjson ${options}`);
  assert.match(stderr, /^http_413: line 3: .* \(1 events before are stored\)\n$/);
  assert.equal(status, 2);
});

test('pub says how many events of a file are stored, also if the connection fails', async () => {
  // `fetch` refuses this port at once, instead of trying again for two minutes.
  const { stderr, status } = await terminal.rtm('pub orders --ndjson - -b 127.0.0.1:1 -t shop', {
    stdin: '{}',
  });
  // On a slow machine, a line before says that the bus cannot be reached.
  assert.match(stderr, /^no_connection: .* this port is reserved .* \(0 events before are stored\)\n$/m);
  assert.equal(status, 2);
});

test('pub says how many events of a file are stored if Ctrl-C ends it', async (t) => {
  const shop = await client('shop');
  const publishing = terminal.start(`pub interrupted --ndjson - ${shop.options}`.split(' '));
  t.after(() => publishing.kill('SIGKILL'));
  let stderr = '';
  publishing.stderr.on('data', (text) => (stderr += text));
  const event = (n: number) => `{"type":"noop","url":"https://shop.example.com/${n}"}\n`;
  publishing.stdin.write(Array.from({ length: 10_500 }, (_, n) => event(n)).join(''));
  const stored = /"name":"interrupted",[^}]*"events":10000,/;
  await until(async () => stored.test((await terminal.rtm(`topic list --json ${asRoot()}`)).stdout));
  publishing.kill('SIGINT');
  const [status] = await once(publishing, 'close');
  assert.equal(stderr, 'interrupted: not all lines were sent (10,000 events before are stored)\n');
  assert.equal(status, 2);
});

test('pub says at Ctrl-C what it waits for, sends no more, and ends at the second at once', async (t) => {
  const router = await bus.receiver(t);
  let answer = () => {};
  router.usual = (response) => {
    answer = () => void response.writeHead(204).end();
  };
  const event = '{"type":"noop","url":"https://shop.example.com/1"}\n';
  const start = () => {
    const options = `-b ${new URL(router.callback).origin} -t shop`;
    const publishing = terminal.start(`pub orders --ndjson - ${options}`.split(' '));
    t.after(() => publishing.kill('SIGKILL'));
    const said = { text: '' };
    publishing.stderr.on('data', (text) => (said.text += text));
    publishing.stdin.write(event.repeat(10_500));
    return { publishing, said };
  };
  const waits =
    'interrupted: sending no more, but waiting for 10,000 events under way; Ctrl-C again ends at once\n';
  const first = start();
  await router.delivery(1);
  first.publishing.kill('SIGINT');
  await until(() => first.said.text === waits);
  answer();
  assert.deepEqual(await once(first.publishing, 'close'), [2, null]);
  assert.equal(
    first.said.text,
    `${waits}interrupted: not all lines were sent (10,000 events before are stored)\n`,
  );
  const second = start();
  await router.delivery(2);
  second.publishing.kill('SIGTERM');
  await until(() => second.said.text === waits);
  const closed = once(second.publishing, 'close');
  // A signal that comes at once counts as the first, so they go on.
  await until(() => !second.publishing.kill('SIGINT'));
  assert.deepEqual(await closed, [null, 'SIGINT']);
});

test('pub says after a second that the bus to which it sends a file cannot be reached', async (t) => {
  const line = `pub orders --ndjson - -b 127.0.0.1:${await freePort()} -t shop`;
  const publishing = terminal.start(line.split(' '));
  t.after(() => publishing.kill('SIGKILL'));
  publishing.stdin.end('{}');
  let stderr = '';
  publishing.stderr.on('data', (text) => (stderr += text));
  await until(() => /cannot be reached \(.*ECONNREFUSED.*\); trying again, for 120 s in all\n$/.test(stderr));
});

test('listen prints what is delivered, forwards it, and unsubscribes at Ctrl-C', async (t) => {
  const shop = await client('shop');
  const search = await client('search');
  const forwarded = await bus.receiver(t);
  const target = forwarded.callback.replace('//', '//my-password@');
  const args = `listen heard --port 0 --json --forward-to ${target} ${search.options}`;
  const listening = terminal.start(args.split(' '));
  let [stdout, stderr] = ['', ''];
  listening.stdout.on('data', (text) => (stdout += text));
  listening.stderr.on('data', (text) => (stderr += text));
  t.after(() => listening.kill('SIGKILL'));
  await until(() => stderr.includes('listening to heard at http://127.0.0.1:'));
  const refused = await terminal.rtmAlone(`listen heard --port 0 ${search.options}`);
  assert.match(
    refused.stderr,
    /^already_subscribed: .* at http:\/\/127\.0\.0\.1:\d+\/, .* rtm token add, .* rtm sub del ends it\n$/,
  );
  assert.match((await terminal.rtmAlone(`listen heard --port 0 ${asRoot()}`)).stderr, /^forbidden: /);

  await terminal.rtm(`pub created heard https://shop.example.com/1 --data ${LONG} ${shop.options}`);
  await until(() => stdout.endsWith('\n'));
  assert.equal(JSON.parse(stdout).url, 'https://shop.example.com/1');
  const { body, headers } = await forwarded.delivery(1);
  assert.equal(`[${stdout.trim()}]`, body);
  // The headers that a receiver looks at are passed on too.
  assert.equal(headers.authorization, `Basic ${btoa('my-password:x')}`);
  assert.match(headers['webhook-id'] as string, /^[\w-]{20}$/);
  assert.equal(headers['routemaster-attempt'], '1');
  assert.ok(stdout.includes(LONG), stdout);

  listening.kill('SIGINT');
  const [status] = await once(listening, 'close');
  assert.equal(status, 0, stderr);
  assert.equal((await terminal.rtm(`sub list ${search.options}`)).stdout, '--- []\n');
});

test('listen prints an event whose time no date can have', async (t) => {
  const shop = await client('shop');
  const search = await client('search');
  const listening = terminal.start(`listen far --port 0 ${search.options}`.split(' '));
  t.after(() => listening.kill('SIGKILL'));
  let [stdout, stderr] = ['', ''];
  listening.stdout.on('data', (text) => (stdout += text));
  listening.stderr.on('data', (text) => (stderr += text));
  await until(() => stderr.includes('listening to far'));
  const line = `{"type":"noop","url":"https://shop.example.com/1","timestamp":${Number.MAX_SAFE_INTEGER}}`;
  await terminal.rtm(`pub far --ndjson - ${shop.options}`, { stdin: line });
  await until(() => stdout.endsWith('\n'));
  assert.equal(stdout, `${Number.MAX_SAFE_INTEGER} far noop https://shop.example.com/1\n`);
  const closed = once(listening, 'close');
  listening.kill('SIGINT');
  await closed;
});

test('listen unsubscribes when the reader of its output ends, or the terminal closes', async (t) => {
  const [shop, search] = [await client('shop'), await client('search')];
  for (const ending of ['reader', 'terminal']) {
    const listening = terminal.start(`listen unread --port 0 ${search.options}`.split(' '));
    t.after(() => listening.kill('SIGKILL'));
    let stderr = '';
    listening.stderr.on('data', (text) => (stderr += text));
    await until(() => stderr.includes('listening to unread'));
    const closed = once(listening, 'close');
    if (ending === 'terminal') listening.kill('SIGHUP');
    else {
      listening.stdout.destroy();
      await terminal.rtm(`pub created unread https://shop.example.com/1 ${shop.options}`);
    }
    assert.deepEqual(await closed, [0, null], stderr);
    assert.equal((await terminal.rtm(`sub list ${search.options}`)).stdout, '--- []\n');
  }
});

test('an error escapes what a terminal would obey, as another server may have answered it', async (t) => {
  const web = createServer(
    (_, response) => void response.writeHead(404).end('\x1b]0;mine\x07 \u202enot found'),
  );
  t.after(() => web.close());
  const port = await listenLocally(web);
  const { stderr, status } = await terminal.rtm(`topic list -b 127.0.0.1:${port} -t search`);
  const said = 'http_404: the answer is 404, not from the bus: \\u001b]0;mine\\u0007 \\u202enot found\n';
  assert.deepEqual({ stderr, status }, { stderr: said, status: 2 });
});

test('listen refuses a port that does not exist', async () => {
  const { stderr, status } = await terminal.rtm(
    `listen orders --port 70000 ${(await client('search')).options}`,
  );
  assert.match(stderr, /^bad_usage: --port must be at most 65535, not 70000\n/);
  assert.equal(status, 1);
});

test('listen says that its subscription may be left if the bus does not end it', async (t) => {
  const web = createServer(({ method }, response) => {
    response.writeHead(method === 'DELETE' ? 403 : 204).end();
  });
  const port = await listenLocally(web);
  const listening = terminal.start(`listen left --port 0 -b 127.0.0.1:${port} -t search`.split(' '));
  t.after(() => {
    listening.kill('SIGKILL');
    web.close();
  });
  let stderr = '';
  listening.stderr.on('data', (text) => (stderr += text));
  await until(() => stderr.includes('listening to left'));
  listening.kill('SIGINT');
  assert.deepEqual(await once(listening, 'close'), [2, null]);
  assert.match(stderr, /\nhttp_403: .*; the subscription may be left: rtm sub del ends it\n$/);
});

test('listen unsubscribes too if npx passes Ctrl-C on, or a supervisor adds SIGTERM', async (t) => {
  for (const again of ['SIGINT', 'SIGTERM'] as const) {
    const web = createServer(({ method }, response) => {
      if (method === 'DELETE') listening.kill(again);
      response.writeHead(204).end();
    });
    const port = await listenLocally(web);
    const listening = terminal.start(`listen passed --port 0 -b 127.0.0.1:${port} -t search`.split(' '));
    t.after(() => {
      listening.kill('SIGKILL');
      web.close();
    });
    let stderr = '';
    listening.stderr.on('data', (text) => (stderr += text));
    await until(() => stderr.includes('listening to passed'));
    listening.kill('SIGINT');
    assert.deepEqual(await once(listening, 'close'), [0, null], again);
  }
});

test('listen says that somebody else has ended its subscription', async (t) => {
  const search = await client('search');
  const listening = terminal.start(`listen ended --port 0 ${search.options}`.split(' '));
  t.after(() => listening.kill('SIGKILL'));
  let stderr = '';
  listening.stderr.on('data', (text) => (stderr += text));
  await until(() => stderr.includes('listening to ended'));
  await terminal.rtm(`sub del ${search.options}`);
  listening.kill('SIGINT');
  assert.deepEqual(await once(listening, 'close'), [2, null]);
  assert.match(stderr, /\nsubscriber_not_found: there is no such subscriber\n$/);
});

test('listen says that a topic has no publisher, and names a target that does not answer, and why', async (t) => {
  const [shop, search] = [await client('shop'), await client('search')];
  const target = `http://127.0.0.1:${await freePort()}/events`;
  const args = `listen unforwarded --port 0 --forward-to ${target} ${search.options}`;
  const listening = terminal.start(args.split(' '));
  t.after(() => listening.kill('SIGKILL'));
  let stderr = '';
  listening.stderr.on('data', (text) => (stderr += text));
  await until(() => stderr.includes('nobody has published to unforwarded yet; rtm topic list'));
  assert.match(stderr, /^listening to unforwarded at /);
  await terminal.rtm(`pub created unforwarded https://shop.example.com/1 ${shop.options}`);
  const why = `not taken, so the bus sends it again: ${target} does not answer: connect ECONNREFUSED 127.0.0.1:`;
  await until(() => stderr.includes(why));
  listening.kill('SIGINT');
  assert.deepEqual(await once(listening, 'close'), [0, null]);
});

test('listen says what to change if its port is taken', async (t) => {
  const { callback } = await bus.receiver(t);
  const { port } = new URL(callback);
  const { options } = await client('late');
  const { stderr, status } = await terminal.rtmAlone(`listen heard --port ${port} ${options}`);
  const advice = `port ${port} is in use: stop what listens there, or give --port one of ROUTEMASTER_CALLBACK_PORTS`;
  assert.ok(stderr.startsWith(`port_taken: ${advice}`), stderr);
  assert.equal(status, 2);
});

test('a person and a script are told once that the bus cannot be reached, before the error at the end', async (t) => {
  const line = `topic list -b 127.0.0.1:${await freePort()} -t x`;
  const script = terminal.rtmAlone(line);
  const screen = terminal.rtmOnScreen(line);
  t.after(() => screen.kill('SIGKILL'));
  let text = '';
  screen.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  await until(() =>
    /^http:\S+ cannot be reached \(.*ECONNREFUSED.*\); trying again, for 10 s in all\r\n/.test(text),
  );
  const { stdout, stderr, status } = await script;
  assert.match(
    stderr,
    /^http:\S+ cannot be reached \(.*ECONNREFUSED.*\); trying again, for 10 s in all\n\w+: .*ECONNREFUSED.*\n$/,
  );
  assert.deepEqual([stdout, status], ['', 2]);
});

test('a person who writes http where https is served is told so after a second', async (t) => {
  const server = createTlsServer(selfSigned());
  t.after(() => server.close());
  const bus = `http://127.0.0.1:${await listenLocally(server)}`;
  const listing = terminal.start(`topic list -b ${bus} -t x`.split(' '));
  t.after(() => listing.kill('SIGKILL'));
  let stderr = '';
  listing.stderr.on('data', (text) => (stderr += text));
  const told = `${bus} cannot be reached \\(https is served there: write https://.*\\); trying again, for 10 s in all\n`;
  await until(() => new RegExp(`^${told}$`).test(stderr));
});

test('pub --ndjson says within its two minutes that the bus cannot be reached', async (t) => {
  const line = `pub orders --ndjson - -b 127.0.0.1:${await freePort()} -t x`;
  const publishing = terminal.start(line.split(' '));
  t.after(() => publishing.kill('SIGKILL'));
  let stderr = '';
  publishing.stderr.on('data', (text) => (stderr += text));
  publishing.stdin.end('{"type":"noop","url":"https://shop.example.com/1"}\n');
  await until(() =>
    /^http:\S+ cannot be reached \(.*ECONNREFUSED.*\); trying again, for 120 s in all\n$/.test(stderr),
  );
});

test('pub takes the words of the API too', async (t) => {
  const { topic, receiver } = await bus.scene(t);
  const shop = await client('shop');
  for (const [n, word] of ['create', 'update', 'delete'].entries()) {
    const line = `pub ${word} ${topic} https://shop.example.com/1 ${shop.options}`;
    assert.deepEqual(await terminal.rtm(line), silent);
    await until(() => receiver.events.length > n);
    assert.equal(receiver.events[n]?.type, word);
  }
});

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

test('sub, topic and secret do as the API', async (t) => {
  const { subscriber, topic, publisher, receiver } = await bus.scene(t);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  await until(() => receiver.events.length === 1);
  assert.deepEqual(await terminal.rtmAlone(`sub pause ${subscriber.token} ${asRoot()}`), silent);
  assert.match(
    (await terminal.rtmAlone(`sub show ${subscriber.token} ${asRoot()}`)).stdout,
    /^paused_by +operator$/m,
  );
  assert.deepEqual(await terminal.rtmAlone(`sub resume ${subscriber.token} ${asRoot()}`), silent);
  for (const each of ['pause', 'resume']) {
    const { stderr } = await terminal.rtm(`sub ${each} ${asRoot()}`);
    assert.equal(
      stderr,
      'forbidden: only a client can leave TOKEN out; root must give the TOKEN of a client\n',
    );
  }
  assert.match((await terminal.rtmAlone(`sub show nobody ${asRoot()}`)).stderr, /^subscriber_not_found: /);

  const topics = await terminal.rtmAlone(`topic list ${asRoot()}`);
  assert.match(topics.stdout, /^TOPIC +PUBLISHER +EVENTS\n/);
  assert.match(topics.stdout, new RegExp(`^${topic} +publisher--\\w+ +1$`, 'm'));
  assert.deepEqual(await terminal.rtmAlone(`topic give ${topic} ${subscriber.token} ${asRoot()}`), silent);
  assert.match(
    (await terminal.rtm(`topic list ${asRoot()}`)).stdout,
    new RegExp(`^${topic} +${subscriber.token} `, 'm'),
  );
  assert.match((await terminal.rtm(`topic give ${topic} nobody ${asRoot()}`)).stderr, /^client_not_found: /);
  assert.deepEqual(await terminal.rtmAlone(`topic del ${topic} ${asRoot()}`), silent);

  const rotated = await terminal.rtmAlone(`secret rotate ${subscriber.token} --grace 0 ${asRoot()}`);
  const options = `-b ${bus.url} -t ${subscriber.token}:${rotated.stdout.trim()}`;
  assert.equal((await terminal.rtm(`sub list ${options}`)).status, 0);
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
  assert.deepEqual(await terminal.rtmAlone(`${limit} --publish orders,shop_* --subscribe=`), silent);
  assert.deepEqual(await limited(), { publish: ['orders', 'shop_*'], subscribe: [] });
  assert.deepEqual(await terminal.rtm(`${limit} --publish - --subscribe orders`), silent);
  assert.deepEqual(await limited(), { publish: [], subscribe: ['orders'] });
  // A web process may know the former limits for a second.
  const publish = `pub created beyond_limits https://shop.example.com/1 ${options}`;
  await until(async () => /^forbidden: /.test((await terminal.rtm(publish)).stderr));
  assert.deepEqual(await terminal.rtm(limit), silent);
  assert.deepEqual(await limited(), { publish: undefined, subscribe: undefined });
  assert.match((await terminal.rtm(`token limit nobody ${asRoot()}`)).stderr, /^client_not_found: /);
});

test('trigger lists and fires', async (t) => {
  const { topic, publisher, receiver } = await bus.scene(t);
  const { token, secret } = publisher;
  const options = `-b ${bus.url} -t ${token}:${secret}`;
  const event = { type: 'noop', url: 'https://shop.example.com/daily' };
  const put = (name: string, body: object) =>
    publisher.call('PUT', `/triggers/${name}`, { topic, event, ...body });
  await put('daily', { schedule: { cron: '0 9 * * *', timezone: 'Europe/London' } });
  await put('hourly', { schedule: { every: 3_600_000 }, paused: true });
  const at = Date.now() + 3_600_000;
  await put('once', { schedule: { at } });

  const list = await terminal.rtmAlone(`trigger list ${options}`);
  assert.match(list.stdout, /^NAME +CLIENT +TOPIC +SCHEDULE +NEXT AT +FIRED +MISSED +LAST ERROR\n/);
  assert.match(
    list.stdout,
    new RegExp(`^daily +- +${topic} +0 9 \\* \\* \\* Europe/London +\\d.+Z +0 +0 +-$`, 'm'),
  );
  assert.match(list.stdout, /^hourly .+ every 3600000 ms +paused +0 /m);
  const time = new Date(at).toISOString();
  assert.match(list.stdout, new RegExp(`^once .+ at ${time} +${time} +0 `, 'm'));
  assert.match(
    (await terminal.rtm(`trigger list ${asRoot()}`)).stdout,
    new RegExp(`^daily +${token} +`, 'm'),
  );

  const fired = await terminal.rtmAlone(`trigger fire daily ${options}`);
  await until(() => receiver.events.length === 1);
  assert.deepEqual(fired, { ...silent, stdout: `${receiver.events[0]?.id}\n` });
  assert.equal(receiver.urls[0], event.url);
  assert.match((await terminal.rtm(`trigger fire nothing ${options}`)).stderr, /^trigger_not_found: /);
  const ofNobody = await terminal.rtm(`trigger fire daily ${asRoot()}`);
  assert.equal(ofNobody.stderr, 'bad_query: root must say whose trigger it is: give --client TOKEN\n');
  const byRoot = await terminal.rtm(`trigger fire daily --client ${token} ${asRoot()}`);
  await until(() => receiver.events.length === 2);
  assert.deepEqual(byRoot, { ...silent, stdout: `${receiver.events[1]?.id}\n` });
});

test('dead lists, shows, retries and purges', async (t) => {
  bus.announceError(/it is a dead letter now/);
  const { subscriber, topic, publisher, receiver } = await bus.scene(t);
  const { callback } = receiver;
  const subscription = { topics: [topic], callback, uuid: 'me', max: 1, timeout: 0, max_attempts: 1 };
  await subscriber.call('POST', '/subscription', subscription);
  receiver.usual = answer.status(500);
  // JSON does not escape these. A terminal may obey U+009B as it obeys Escape and a bracket, and U+202E turns text.
  const event = {
    type: 'noop',
    url: 'https://shop.example.com/1',
    data: { note: '\u009b2J\u202e', long: JSON.rawJSON('12345678901234567890') },
  };
  await publisher.call('POST', `/topics/${topic}`, event);
  const list = () => terminal.rtm(`dead list --json --subscriber ${subscriber.token} ${asRoot()}`);
  await until(async () => JSON.parse((await list()).stdout).length === 1);
  const [{ id }] = JSON.parse((await list()).stdout);

  const shown = (await terminal.rtmAlone(`dead show ${id} ${asRoot()}`)).stdout;
  const time = '20\\d\\d-\\d\\d-\\d\\dT[\\d:.]+Z';
  for (const line of [
    `created_at +${time}`,
    `died_at +${time}`,
    'AT +STATUS +MS +REASON +ANSWER',
    `${time} +500 +\\d+ +HTTP 500.*`,
    `${time} ${topic} noop https://shop.example.com/1 \\{"note":"\\\\u009b2J\\\\u202e","long":12345678901234567890\\}`,
  ])
    assert.match(shown, new RegExp(`^${line}$`, 'm'));
  const { stdout } = await terminal.rtmAlone(`dead show ${id} --json ${asRoot()}`);
  assert.match(stdout, /"\\u009b2J\\u202e","long":12345678901234567890\}/);
  assert.equal(JSON.parse(stdout).events[0].data.note, '\u009b2J\u202e');
  receiver.usual = answer.status(204);
  assert.deepEqual(await terminal.rtmAlone(`dead retry ${id} ${asRoot()}`), {
    ...silent,
    stdout: 'retried 1\n',
  });
  await until(() => receiver.events.length === 1);
  assert.equal((await terminal.rtm(`dead purge ${asRoot()}`)).status, 1);
  receiver.usual = answer.status(500);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/2' });
  await until(async () => JSON.parse((await list()).stdout).length === 1);
  const [second] = JSON.parse((await list()).stdout);
  await bus.store.redis.lset(bus.store.keys.dead_letter(second.id), 3, Buffer.from([0x92, 0xc1, 0xff]));
  const undecodable = (await terminal.rtmAlone(`dead show ${second.id} ${asRoot()}`)).stdout;
  assert.match(undecodable, /^\{"undecodable":"ksH\/"\}$/m);
  const one = await terminal.rtmAlone(`dead purge ${second.id} ${asRoot()}`);
  assert.deepEqual(one, { ...silent, stdout: 'purged 1\n' });
  const purged = await terminal.rtm(`dead purge --all --subscriber ${subscriber.token} ${asRoot()}`);
  assert.deepEqual(purged, { ...silent, stdout: 'purged 0\n' });
  for (const each of ['retry', 'purge']) {
    const { stdout } = await terminal.rtm(`dead ${each} --help`);
    assert.match(stdout, /^ {4}\w+ a dead letter.*, or all; root must say whose by --subscriber$/m);
    assert.deepEqual(await terminal.rtm(`dead ${each} --all ${asRoot()}`), {
      ...silent,
      stderr: 'bad_query: root must say whose dead letters: give --subscriber TOKEN\n',
      status: 2,
    });
  }
});

test('verify says whether a delivery is genuine, and what is wrong', async () => {
  const [key, body] = [Buffer.from('a key of the tests of rtm'), '[]'];
  const headersAt = (seconds: number) => {
    const signature = createHmac('sha256', key).update(`1.${seconds}.${body}`).digest('base64');
    return `webhook-id: 1\nwebhook-timestamp: ${seconds}\nwebhook-signature: v1,${signature}\n`;
  };
  const now = Math.floor(Date.now() / 1000);
  write('body', body);
  write('new', headersAt(now));
  write('old', headersAt(now - 1000));
  const verify = (secret: Buffer, headers: string) =>
    terminal.rtm(`verify --secret whsec_${secret.toString('base64')} --headers ${headers} --body body`);
  assert.deepEqual(await verify(key, 'new'), { ...silent, stdout: 'the delivery is genuine\n' });
  assert.match(
    (await verify(key, 'old')).stderr,
    /^not_genuine: the signature fits, but webhook-timestamp is/,
  );
  const line = `verify --secret whsec_${key.toString('base64')} --headers new --body -`;
  assert.equal((await terminal.rtmAlone(line, { stdin: body })).stdout, 'the delivery is genuine\n');
  const other = await verify(Buffer.from('another key of these tests'), 'new');
  assert.match(other.stderr, /^not_genuine: no signature of the delivery fits/);
  assert.equal(other.status, 2);
  const prefixless = await terminal.rtm(`verify --secret ${'Zm9v'.repeat(8)} --headers new --body body`);
  assert.match(
    prefixless.stderr,
    /fits the signing secret; a signing secret begins with whsec_ or whpk_, and this one does not\n$/,
  );
  const missing = await terminal.rtmAlone('verify --secret foo --headers missing --body body');
  assert.match(missing.stderr, /^ENOENT: no such file or directory, open .*missing'\n$/);
});
