import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { answer } from '../../../harness/http/receiver.ts';
import { freePort } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { chunksOf } from '../../../packages/cli/src/event_lines.ts';
import { asRoot, bus, client } from './shared_bus.ts';
import { silent, terminal, write } from './shared_terminal.ts';

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
  const all = await terminal.rtm(`pub ${topic} --ndjson good.ndjson ${shop.options}`);
  assert.match(all.stdout, /^7,000 events in \d+\.\d s, [\d,]+ a second\n$/);
  assert.deepEqual([all.stderr, all.status], ['', 0]);
  await until(() => receiver.events.length === 7001);
  assert.equal(receiver.urls[7000], 'https://shop.example.com/6999');

  for (const [bad, why] of [
    ['{"type":"noop"}', 'bad_event: line 3: url must be a string'],
    ['{', 'bad_body: line 3: it is not one event'],
    [
      '{"type":"noop","url":"https://shop.example.com/1","timestamp":1767225600}',
      'bad_event: line 3: timestamp 1767225600 looks like seconds; give milliseconds since 1970',
    ],
    [
      '{"type":"noop","url":"https://shop.example.com/1","timestamp":1767225600.5}',
      'bad_event: line 3: timestamp 1767225600.5 looks like seconds',
    ],
    [
      '{"type":"noop","url":"https://shop.example.com/1","timestamp":{"toString":1,"valueOf":1}}',
      'bad_event: line 3: timestamp must be a whole number',
    ],
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
  const one = await terminal.rtm(`pub created prodcts https://shop.example.com/1 ${shop.options}`);
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

test('pub publishes lines of a pipe as they come, and says at once which of them is refused', async (t) => {
  const { topic, receiver } = await bus.scene(t);
  const shop = await client('shop');
  const publishing = terminal.start(`pub ${topic} --ndjson - ${shop.options}`.split(' '));
  t.after(() => publishing.kill('SIGKILL'));
  let stderr = '';
  publishing.stderr.on('data', (text) => (stderr += text));
  const event = (n: number) => `{"type":"noop","url":"https://shop.example.com/${n}"}\n`;
  publishing.stdin.write(event(1) + event(2) + event(3).slice(0, 10));
  await until(() => receiver.events.length === 2);
  publishing.stdin.write(event(3).slice(10));
  await until(() => receiver.events.length === 3);
  publishing.stdin.write('{"type":"noop"}\n');
  assert.deepEqual(await once(publishing, 'close'), [2, null]);
  assert.equal(stderr, 'bad_event: line 4: url must be a string (3 events before are stored)\n');
});

test('pub lets Node warn of nothing if a line is late because the process had no CPU time', async (t) => {
  const warnings: Error[] = [];
  const note = (warning: Error) => void warnings.push(warning);
  process.on('warning', note);
  t.after(() => process.off('warning', note));
  const input = async function* () {
    yield '{"n":1}\n';
    // Longer than a line waits for others.
    const endMs = performance.now() + 250;
    while (performance.now() < endMs);
    yield '{"n":2}\n';
  };
  const chunks = await Array.fromAsync(chunksOf(input()));
  assert.deepEqual(
    chunks.flatMap(({ lines }) => lines),
    ['{"n":1}', '{"n":2}'],
  );
  await turn();
  assert.deepEqual(warnings, []);
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

test('pub says that more events of a file are perhaps stored if the bus fails', async (t) => {
  const router = await bus.receiver(t);
  router.answers(answer.status(500));
  const line = `pub orders --ndjson - -b ${new URL(router.callback).origin} -t shop`;
  const { stderr, status } = await terminal.rtm(line, { stdin: '{}' });
  assert.match(stderr, /^http_500: .* \(0 events before are stored, and perhaps the next ones\)\n$/);
  assert.equal(status, 2);
});

test('pub says how many events of a file are stored if Ctrl-C ends it', async (t) => {
  const shop = await client('shop');
  const publishing = terminal.start(`pub interrupted --ndjson - ${shop.options}`.split(' '));
  t.after(() => publishing.kill('SIGKILL'));
  let stderr = '';
  publishing.stderr.on('data', (text) => (stderr += text));
  const event = (n: number) => `{"type":"noop","url":"https://shop.example.com/${n}"}\n`;
  publishing.stdin.write(Array.from({ length: 10_000 }, (_, n) => event(n)).join(''));
  publishing.stdin.write('{"type":');
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
  // On a slow machine, fewer events than may be under way at once have been read by now.
  const waits =
    /^interrupted: sending no more, but waiting for ([\d,]+) events under way; Ctrl-C again ends at once\n/;
  const first = start();
  await router.delivery(1);
  first.publishing.kill('SIGINT');
  await until(() => waits.test(first.said.text));
  answer();
  assert.deepEqual(await once(first.publishing, 'close'), [2, null]);
  const [said = '', underWay] = waits.exec(first.said.text) ?? [];
  assert.equal(
    first.said.text.slice(said.length),
    `interrupted: not all lines were sent (${underWay} events before are stored)\n`,
  );
  const second = start();
  await router.delivery(2);
  second.publishing.kill('SIGTERM');
  await until(() => waits.test(second.said.text));
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

test('pub says each time that the bus to which it sends a growing file does not take it for the moment', async (t) => {
  const router = await bus.receiver(t);
  router.usual = answer.status(503);
  const { origin } = new URL(router.callback);
  const publishing = terminal.start(`pub orders --ndjson - -b ${origin} -t shop`.split(' '));
  t.after(() => publishing.kill('SIGKILL'));
  let stderr = '';
  publishing.stderr.on('data', (text) => (stderr += text));
  const said = `${origin} answers 503; trying again, for 120 s in all\n`;
  const publish = () => publishing.stdin.write('{"type":"noop","url":"https://shop.example.com/1"}\n');
  publish();
  await until(() => stderr === said);
  router.usual = answer.status(204);
  await until(() => router.events.length === 1);
  router.usual = answer.status(503);
  publish();
  await until(() => stderr === said.repeat(2));
  router.usual = answer.status(204);
  await until(() => router.events.length === 2);
  // A client that publishes faster than its rate is told so only once.
  for (const n of [3, 4]) {
    router.answers(answer.status(429, { 'retry-after': '2' }));
    publish();
    await until(() => router.events.length === n);
    assert.equal(stderr, `${said.repeat(2)}${origin} answers 429; trying again until it takes more\n`);
  }
  // It is told all the same if the bus goes away while it waits for its rate.
  router.usual = answer.status(503);
  router.answers(answer.status(429, { 'retry-after': '2' }));
  publish();
  await until(() => stderr.endsWith(`until it takes more\n${said}`));
});

test('pub goes on with a file if the client has to wait for its rate longer than for a bus that is away', async (t) => {
  const router = await bus.receiver(t);
  const publish = () => terminal.run('impatient.ts', [new URL(router.callback).origin]);
  const away = answer.text(503, '{"code":"overloaded"}');
  router.answers(answer.status(429, { 'retry-after': '1000' }));
  assert.equal(await publish(), '{"n":1},{"n":2}');
  assert.equal(router.deliveries.length, 2);
  router.usual = away;
  assert.equal(await publish(), 'time_limit');
  router.usual = answer.status(204);
  // The time limit can come while the bus stores the events. They go again with the same key, so they are stored once.
  router.answers(answer.status(429, { 'retry-after': '1' }), answer.hang);
  assert.equal(await publish(), '{"n":1},{"n":2}');
  const keys = router.deliveries.slice(-3).map(({ headers }) => headers['idempotency-key']);
  assert.equal(new Set(keys).size, 1);
  // If the bus then stays away, it is still not known whether they are stored.
  router.answers(answer.status(429, { 'retry-after': '1' }), answer.hang);
  router.usual = away;
  assert.equal(await publish(), 'time_limit, perhaps stored');
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

test('pub gives an event an id, and delays it', async (t) => {
  const { topic, receiver, publisher } = await bus.scene(t);
  const { token, secret } = publisher;
  const at = `-b ${bus.url} -t ${token}:${secret}`;
  const pub = (more: string) => terminal.rtm(`pub noop ${topic} https://shop.example.com/1 ${at} ${more}`);
  assert.equal((await pub('--id own-1')).stderr, '');
  await until(() => receiver.events.length === 1);
  assert.equal(receiver.events[0]?.id, 'own-1');
  const dueAt = new Date(Date.now() + 86_400_000).toISOString();
  await pub(`--id later-1 --at ${dueAt}`);
  const before = Date.now();
  await pub('--id later-2 --delay 2h');
  const delayed = (await publisher.call('GET', `/topics/${topic}/delayed`)) as {
    at: number;
    event: { id: string };
  }[];
  assert.deepEqual(
    delayed.map(({ event }) => event.id),
    ['later-2', 'later-1'],
  );
  assert.equal(delayed[1]?.at, Date.parse(dueAt));
  const waitMs = (delayed[0]?.at ?? 0) - before;
  assert.ok(waitMs >= 7_199_000 && waitMs < 7_300_000, `${waitMs}`);
  assert.match(
    (await pub('--at tomorrow')).stderr,
    /^bad_usage: --at must be a date such as .*, not tomorrow\n/,
  );
  const lines = await terminal.rtm(`pub ${topic} --ndjson - --delay 1s ${at}`);
  assert.match(
    lines.stderr,
    /^bad_usage: --delay is for one event; with --ndjson, each line has its own delay\n/,
  );
});
