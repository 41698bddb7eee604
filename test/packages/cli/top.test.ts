import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { answer } from '../../../harness/http/receiver.ts';
import { MeddlingProxy } from '../../../harness/meddling_proxy.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { type Owner, RunningBus } from '../../../harness/processes/running_bus.ts';
import { until } from '../../../harness/until.ts';
import { reportOf } from '../../../packages/cli/src/bus_report.ts';
import { readFigures, sumOf } from '../../../packages/cli/src/figures.ts';
import { topLines } from '../../../packages/cli/src/top_lines.ts';
import { Terminal } from './terminal.ts';

const CTRL_C = '\x03';
const NAMES = ['warehouse--a1b2c3d4e5f6', 'billing--a1b2c3d4e5f6'] as const;
const [ENTER, LEAVE] = ['\x1b[?1049h', '\x1b[?1049l'];

const bus = RunningBus.forTests({ env: { ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '1' } });
const terminal = new Terminal();
const asRoot = () => `-b ${bus.url} -t ${ROOT_KEY}`;

/** Makes two subscribers: one that takes an event, and one that refuses it. */
async function scene(t: Owner) {
  const healthy = await bus.scene(t);
  const failing = await bus.scene(t);
  failing.receiver.usual = answer.status(500);
  const publish = async () => {
    for (const { publisher, topic } of [healthy, failing]) {
      const event = { type: 'noop', url: 'https://shop.example.com/1' };
      await publisher.call('POST', `/topics/${topic}`, event);
    }
  };
  await publish();
  await until(() => healthy.receiver.events.length > 0 && failing.receiver.deliveries.length > 0);
  return { healthy: healthy.subscriber.token, failing: failing.subscriber.token, publish };
}

test('top shows the bus on a screen, those who fail first, and gives the screen back at Ctrl-C', async (t) => {
  const { healthy, failing, publish } = await scene(t);
  const screen = terminal.rtmOnScreen(`top ${asRoot()}`);
  t.after(() => screen.kill('SIGKILL'));
  let text = '';
  screen.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  const frames = () => text.split('\x1b[H').slice(1);
  await until(() => frames().length > 0);
  // Publishes all the time, because a rate has only the last ten seconds, and a slow machine draws few frames.
  const counted = async () => {
    await publish();
    return /published [\d.]*[1-9].*delivered [\d.]*[1-9]/.test(frames().at(-1) ?? '');
  };
  await until(counted, { what: 'the rates are shown', everyMs: 500 });
  screen.stdin.write(CTRL_C);
  const [status] = await once(screen, 'close');
  assert.equal(status, 0, text);
  assert.ok(text.startsWith(ENTER) && text.trimEnd().endsWith(LEAVE), text);
  const frame = frames().at(-1) ?? '';
  const name = (token: string) => `${token.slice(0, 20)}\\S*`;
  const [first, last] = [`${name(failing)} +failing +[1-9]\\d* .* KiB`, `${name(healthy)} +healthy +\\d+ `];
  assert.match(frame, new RegExp(`${first}[^]*${last}`));
  assert.match(frame, /workers 32 \(\+11 spare\) +memory \d/);
});

test('top shows which subscribers are paused', async (t) => {
  const { subscriber, publisher, topic } = await bus.scene(t);
  await subscriber.call('POST', '/subscriber/pause');
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  const line = new RegExp(`^${subscriber.token} +paused +1 `, 'm');
  await until(async () => line.test((await terminal.rtm(`top ${asRoot()}`)).stdout));
  const { stdout } = await terminal.rtm(`top --json --once ${asRoot()}`);
  const { subscribers } = JSON.parse(stdout) as { subscribers: { subscriber: string; paused: boolean }[] };
  assert.deepEqual(
    subscribers.filter(({ paused }) => paused).map((each) => each.subscriber),
    [subscriber.token],
  );
  await subscriber.call('POST', '/subscriber/resume');
});

test('top --once in a narrow terminal has no line that is wider', async (t) => {
  const { failing } = await scene(t);
  const screen = terminal.rtmOnScreen(`top --once ${asRoot()}`, 60);
  t.after(() => screen.kill('SIGKILL'));
  const lines = (await screen.stdout.setEncoding('utf8').toArray()).join('').trimEnd().split(/\r?\n/);
  for (const line of lines) assert.ok(line.length <= 60, line);
  const text = lines.join('\n');
  assert.match(text, /^SUBSCRIBER +STATE +QUEUED +OLDEST/m);
  assert.match(text, new RegExp(`^${failing.slice(0, 19)}\\S* +failing +1 `, 'm'));
});

test('top leaves out the columns that matter least, then shortens names, and cuts no figure', () => {
  const reading = (atMs: number, count: number) => ({
    atMs,
    figures: readFigures(
      NAMES.flatMap((subscriber) => [
        `routemaster_subscriber_queue_events{subscriber="${subscriber}"} 1234567`,
        `routemaster_subscriber_queue_oldest_age_seconds{subscriber="${subscriber}"} 7200`,
        `routemaster_subscriber_health_points{subscriber="${subscriber}"} 42`,
        `routemaster_subscriber_dead_letters_batches{subscriber="${subscriber}"} 8765`,
        `routemaster_subscriber_queue_bytes{subscriber="${subscriber}"} 2097152`,
        `routemaster_subscriber_dead_letters_bytes{subscriber="${subscriber}"} 1048576`,
        `routemaster_delivery_events_total{subscriber="${subscriber}",status="success"} ${12_340 * count}`,
        `routemaster_delivery_batches_total{subscriber="${subscriber}",status="failure"} ${56 * count}`,
      ]).join('\n'),
    ),
  });
  const report = reportOf(reading(10_000, 1), reading(0, 0));
  const cells = ['failing', '1,234,567', '2 h', '5.6', '1,234', '3.0 MiB', '42', '8,765'];
  const byRank = [
    'SUBSCRIBER',
    'STATE',
    'QUEUED',
    'OLDEST',
    'FAILED/S',
    'EVENTS/S',
    'MEMORY',
    'HEALTH',
    'DEAD',
  ];
  const counts: number[] = [];
  for (let width = 150; width >= 12; width--) {
    const lines = topLines(report, 'https://bus.example.com', width);
    for (const line of lines) assert.ok(line.length <= width, `${width}: ${line}`);
    const at = lines.findIndex((line) => line.startsWith('SUBSCRIBER'));
    const heads = lines[at]?.split(/ +/) ?? [];
    counts.push(heads.length);
    assert.deepEqual(heads.toSorted(), byRank.slice(0, heads.length).toSorted(), `${width} columns`);
    const [name = '', ...shown] = lines[at + 1]?.split(/ {2,}/) ?? [];
    assert.deepEqual(shown.toSorted(), cells.slice(0, heads.length - 1).toSorted(), `${width} columns`);
    assert.ok(NAMES[0].startsWith(name.replace('…', '')), name);
    assert.ok(heads.length < 5 || name.length >= 20, `${width} columns: ${name}`);
  }
  assert.deepEqual([...new Set(counts)], [9, 8, 7, 6, 5, 4, 3, 2, 1]);
  const narrow = topLines(report, 'https://bus.example.com', 40).join('\n');
  assert.match(narrow, /^published 0\/s +delivered 2,468\/s$\n^failed deliveries 11\/s$/m);
});

test('top shows the five topics that get most events a second', () => {
  const reading = (atMs: number, counts: Record<string, number>) => ({
    atMs,
    figures: readFigures(
      Object.entries(counts)
        .map(([topic, count]) => `routemaster_events_published_total{topic="${topic}"} ${count}`)
        .join('\n'),
    ),
  });
  const before = reading(0, { old: 90_000, a: 100, '(removed)': 0 });
  const now = reading(10_000, {
    old: 90_000,
    a: 120,
    b: 50,
    c: 40,
    d: 3000,
    e: 35,
    f: 5,
    '(removed)': 80_000,
  });
  assert.deepEqual(
    reportOf(now, before).topics.map(({ topic, published, published_rate }) => [
      topic,
      published,
      published_rate,
    ]),
    [
      ['d', 3000, 300],
      ['b', 50, 5],
      ['c', 40, 4],
      ['e', 35, 3.5],
      ['a', 120, 2],
    ],
  );
  assert.deepEqual(reportOf(now).topics, []);
  const lines = topLines(reportOf(now, before), 'https://bus.example.com', 40).join('\n');
  assert.match(lines, /^busiest topics {2}d 300\/s {2}b 5\.0\/s\nc 4\.0\/s {2}e 3\.5\/s {2}a 2\.0\/s$/m);
});

test('top says which partitions are away, as their figures are missing', () => {
  const up = (value: number) => (partition: number) =>
    `routemaster_partition_up{partition="${partition}"} ${value}\n`;
  const shown = (...away: number[]) => {
    const text = [[0, 1, 3].map(up(1)), away.map(up(0))].flat().join('');
    return reportOf({ atMs: 0, figures: readFigures(text) });
  };
  assert.match(
    topLines(shown(0), 'https://bus.example.com', 120).join('\n'),
    /^partition 0 is away {2}their figures, and those of all subscribers, are missing$/m,
  );
  const report = shown(10, 2);
  assert.deepEqual(report.partitions_away, [2, 10]);
  assert.deepEqual(topLines(report, 'https://bus.example.com', 80).slice(3, 5), [
    'partitions 2, 10 are away  their figures are missing',
    '',
  ]);
  assert.match(
    topLines(shown(2), 'https://bus.example.com', 80).join('\n'),
    /^partition 2 is away {2}their/m,
  );
  assert.doesNotMatch(topLines(shown(), 'https://bus.example.com', 80).join('\n'), /partition/);
});

test('top waits as ever, and says nothing on stderr, if the bus is slow', async (t) => {
  const answers: number[] = [];
  const server = createServer((_request, response) => {
    setTimeout(() => response.end('# figures\n'), answers.push(performance.now()) === 1 ? 0 : 2100);
  });
  t.after(() => server.close().closeAllConnections());
  const port = await listenLocally(server);
  const screen = terminal.rtmOnScreen(`top -b http://127.0.0.1:${port} -t a:b`);
  t.after(() => screen.kill('SIGKILL'));
  let text = '';
  screen.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  await until(() => answers.length === 3);
  screen.stdin.write(CTRL_C);
  await once(screen, 'close');
  assert.doesNotMatch(text, /Warning/);
});

test('top goes on when the bus is back', async (t) => {
  const proxy = await MeddlingProxy.toWeb(() => Number(new URL(bus.url).port));
  t.after(() => proxy.stop());
  const screen = terminal.rtmOnScreen(`top -b ${proxy.url} -t ${ROOT_KEY}`);
  t.after(() => screen.kill('SIGKILL'));
  let text = '';
  screen.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  await until(() => text.includes('queued'));
  proxy.meddle = () => ({ end: 'cut' });
  await until(() => /the bus does not answer, trying again: .*no answer/.test(text));
  text = '';
  proxy.meddle = () => undefined;
  await until(() => text.includes('queued'));
  screen.stdin.write(CTRL_C);
  assert.deepEqual(await once(screen, 'close'), [0, null]);
});

test('top --once and --json are for scripts; without a terminal it shows the bus once', async (t) => {
  const { failing } = await scene(t);
  for (const options of ['--once', '']) {
    const { stdout, stderr, status } = await terminal.rtmAlone(`top ${options} ${asRoot()}`);
    assert.match(stdout, new RegExp(`^queued [1-9].*[^]*^${failing} +failing +1 `, 'm'));
    assert.deepEqual([stderr, status], ['', 0]);
  }
  const { stdout } = await terminal.rtm(`top --once --json ${asRoot()}`);
  const report = JSON.parse(stdout);
  const line = report.subscribers.find(({ subscriber }: { subscriber: string }) => subscriber === failing);
  assert.deepEqual([line.queued, line.health < 100, line.delivered_rate], [1, true, null]);
});

test('top --once shows the rates that the bus itself has, if it has a history', async (t) => {
  const values = { published: [9, 2.5, null], delivered: [9, null, 70] };
  const metrics = Object.entries(values).map(([name, values]) => [name, { unit: 'events/s', values }]);
  const topic = (name: string, rate: number) => ({ name, events: 9000, lately: { rate, as_of: 0 } });
  let hasHistory = true;
  const server = createServer(({ url }, response) => {
    if (url === '/metrics') return void response.end('# figures\n');
    response.writeHead(hasHistory ? 200 : 404, { 'content-type': 'application/json' });
    const topics = [topic('orders', 1204), topic('shop', 2.5), topic('idle', 0)];
    const known = url === '/topics?limit=5&sort=rate' ? topics : { metrics: Object.fromEntries(metrics) };
    response.end(JSON.stringify(hasHistory ? known : {}));
  });
  t.after(() => server.close().closeAllConnections());
  const port = await listenLocally(server);
  const shown = async () => (await terminal.rtm(`top --once -b http://127.0.0.1:${port} -t a:b`)).stdout;
  const known = await shown();
  assert.match(known, /^published 2\.5\/s +delivered 70\/s +failed deliveries -\/s$/m);
  assert.match(known, /^busiest topics {2}orders 1,204\/s {2}shop 2\.5\/s$/m);
  hasHistory = false;
  const unknown = await shown();
  assert.match(unknown, /^published -\/s +delivered -\/s +failed deliveries -\/s$/m);
  assert.doesNotMatch(unknown, /busiest/);
});

test('top shows no rates until it has watched for ten seconds, and then the right ones', async (t) => {
  const own = await bus.scene(t);
  const watching = terminal.start(['top', '--json', ...asRoot().split(' ')]);
  t.after(() => watching.kill('SIGKILL'));
  let text = '';
  watching.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
  const reports = () =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  await until(() => reports().length > 0);
  for (let n = 0; n < 40; n++)
    await own.publisher.publish(own.topic, { url: `https://shop.example.com/${n}` });
  const rates = (): (number | null)[] =>
    reports().map(({ subscribers }) => {
      const isOwn = (each: { subscriber: string }) => each.subscriber === own.subscriber.token;
      return subscribers.find(isOwn).delivered_rate;
    });
  const first = await until(() => rates().find((each) => each !== null));
  const busiest = () =>
    reports().flatMap(({ topics }) => topics.map((each: { topic: string }) => each.topic));
  await until(() => busiest().includes(own.topic));
  watching.kill('SIGINT');
  assert.deepEqual(await once(watching, 'close'), [0, null]);
  assert.ok(rates().findIndex((each) => each !== null) >= 5, JSON.stringify(rates()));
  // A busy machine may miss a reading. Then readings that are twelve seconds apart are compared.
  assert.ok(first > 40 / 12.5 && first < 40 / 9.4, `${first} events a second, but 40 in ten seconds`);
});

test('top says why it cannot see the bus', async () => {
  const { stderr, status } = await terminal.rtm(`top --once -b ${bus.url} -t nobody`);
  assert.match(stderr, /^unauthenticated: /);
  assert.equal(status, 2);
});

test('figures are read with the labels that they have', () => {
  const figures = readFigures(
    [
      '# HELP routemaster_a A figure',
      'process_a 3',
      'routemaster_a{subscriber="x\\"{},\\\\n",status="success"} 4',
      'routemaster_a{subscriber="y",status="failure"} 1.5',
      'routemaster_b 7',
    ].join('\n'),
  );
  assert.deepEqual([...figures.keys()], ['a', 'b']);
  assert.deepEqual(figures.get('a')?.[0]?.labels, { subscriber: 'x"{},\\n', status: 'success' });
  assert.deepEqual(
    [sumOf(figures, 'a'), sumOf(figures, 'a', { status: 'failure' }), sumOf(figures, 'c')],
    [5.5, 1.5, 0],
  );
});
