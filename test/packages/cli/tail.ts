import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { VIEWER_KEY } from '../../../harness/processes/bus_environment.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus, client } from './shared_bus.ts';
import { terminal } from './shared_terminal.ts';

const TIME = '20\\d\\d-\\d\\d-\\d\\dT[\\d:.]+Z';

function tail(t: TestContext, line: string) {
  const tailing = terminal.start(`tail ${line}`.split(' '));
  t.after(() => tailing.kill('SIGKILL'));
  let [stdout, stderr] = ['', ''];
  tailing.stdout.on('data', (text) => (stdout += text));
  tailing.stderr.on('data', (text) => (stderr += text));
  return { tailing, stdout: () => stdout, stderr: () => stderr };
}

test('tail prints each event of the topics once, in order, and what is left out, until Ctrl-C', async (t) => {
  const { token, options } = await client('shop');
  const { tailing, stdout, stderr } = tail(t, `sofas_tailed beds_tailed ${asRoot()}`);
  await until(() => stderr().includes('nobody has published to sofas_tailed, beds_tailed yet'));
  assert.match(
    stderr(),
    /^watching sofas_tailed, beds_tailed: .*, but none of triggers, joins and delays; Ctrl-C ends\n/,
  );
  // A web process counts what it leaves out of a topic from the second look on.
  await terminal.rtm(`pub created sofas_tailed https://shop.example.com/first ${options}`);
  await until(() => stdout().endsWith('/first\n'));
  const line = (n: number, data: unknown) =>
    JSON.stringify({ type: 'noop', url: `https://shop.example.com/${n}`, data });
  const lines = Array.from({ length: 31 }, (_, n) => line(n, n === 0 ? 'x'.repeat(2000) : { n }));
  await terminal.rtm(`pub sofas_tailed --ndjson - ${options}`, { stdin: lines.join('\n') });
  await until(() => stdout().split('\n').length > 26);
  await terminal.rtm(`pub created lamps_untailed https://shop.example.com/ ${options}`);
  const long = '{"n":12345678901234567890,"note":"\u009b2J"}';
  await terminal.rtm(`pub created beds_tailed https://shop.example.com/bed --data ${long} ${options}`);
  await until(() => stdout().includes('bed '));
  // With the next look, what was printed must not come again.
  await terminal.rtm(`pub deleted sofas_tailed https://shop.example.com/99 ${options}`);
  await until(() => stdout().includes('/99\n'));
  tailing.kill('SIGINT');
  assert.deepEqual(await once(tailing, 'close'), [0, null]);
  const shown = stdout().trimEnd().split('\n');
  assert.match(
    shown[1] ?? '',
    new RegExp(`^${TIME} sofas_tailed ${token} \\(too long to be shown: 2,\\d+ bytes\\)$`),
  );
  for (const [n, each] of shown.slice(2, 26).entries()) {
    const url = `https://shop.example.com/${n + 1}`;
    assert.match(each, new RegExp(`^${TIME} sofas_tailed ${token} noop ${url} \\{"n":${n + 1}\\}$`));
  }
  const escaped = '\\{"n":12345678901234567890,"note":"\\\\u009b2J"\\}';
  assert.match(
    shown[26] ?? '',
    new RegExp(`^${TIME} beds_tailed ${token} create https://shop.example.com/bed ${escaped}$`),
  );
  assert.match(shown[27] ?? '', / delete https:\/\/shop\.example\.com\/99$/);
  assert.equal(shown.length, 28, stdout());
  assert.match(stderr(), /^6 events left out$/m);
});

test('tail --json prints for a viewer what the bus answers, of every topic', async (t) => {
  const { options } = await client('shop');
  const { tailing, stdout, stderr } = tail(t, `--json -b ${bus.url} -t ${VIEWER_KEY}`);
  await until(() => stderr().startsWith('watching all topics: '));
  await terminal.rtm(`pub created rugs_tailed https://shop.example.com/rug ${options}`);
  await until(() => stdout().includes('https://shop.example.com/rug'));
  // When the reader of its output has ended, tail ends at the next event.
  const closed = once(tailing, 'close');
  tailing.stdout.destroy();
  await terminal.rtm(`pub deleted rugs_tailed https://shop.example.com/rug ${options}`);
  assert.deepEqual(await closed, [0, null]);
  const entry = JSON.parse(
    stdout()
      .split('\n')
      .find((each) => each.includes('rugs_tailed')) ?? '',
  );
  assert.deepEqual([entry.topic, entry.event.type], ['rugs_tailed', 'create']);
});

test('tail takes apart events that look the same, and says when it may have missed some', async (t) => {
  const entry = (url: string) => ({
    ...{ at: 1795171531418, topic: 'orders', client: 'shop', bytes: 9, skipped: 0 },
    event: { type: 'noop', url },
  });
  const answers = ['', 'ba', 'bba', 'cbba', 'cbba', 'ed', 'fed'];
  let asked = 0;
  const server = createServer((_, response) => {
    const answer = [...(answers[Math.min(asked, answers.length - 1)] ?? '')].map(entry);
    asked++;
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  t.after(() => server.close().closeAllConnections());
  const { tailing, stdout, stderr } = tail(t, `-b 127.0.0.1:${await listenLocally(server)} -t x`);
  await until(() => asked > answers.length);
  tailing.kill('SIGINT');
  assert.deepEqual(await once(tailing, 'close'), [0, null]);
  const urls = stdout().match(/\w$/gm);
  assert.deepEqual(urls, ['a', 'b', 'b', 'c', 'd', 'e', 'f']);
  const notes = stderr().split('\n').slice(1, -1);
  assert.deepEqual(notes, ['events may be missing here: more came than the bus keeps']);
});

test('tail refuses what it cannot watch, and leads a client to listen', async () => {
  const { options } = await client('shop');
  const asClient = await terminal.rtmAlone(`tail ${options}`);
  assert.match(asClient.stderr, /^forbidden: .*the root key.*; rtm listen shows a client .*\n$/);
  assert.deepEqual([asClient.stdout, asClient.status], ['', 2]);
  const misspelt = await terminal.rtm(`tail Orders ${asRoot()}`);
  assert.match(misspelt.stderr, /^bad_query: topic must be /);
  const topics = Array.from({ length: 21 }, (_, n) => `topic_${n}`).join(' ');
  const tooMany = await terminal.rtm(`tail ${topics} ${asRoot()}`);
  assert.match(tooMany.stderr, /^bad_usage: At most 20 topics; /);
  assert.equal(tooMany.status, 1);
});

test('tail and listen go on without a hint if the bus lists no topics, as while a partition is away', async (t) => {
  let looks = 0;
  const web = createServer(({ url = '' }, response) => {
    if (url.startsWith('/tail')) looks++;
    const status = url.startsWith('/topics') ? 503 : url.startsWith('/tail') ? 200 : 204;
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(status === 200 ? '[]' : '');
  });
  t.after(() => web.close());
  const at = `-b 127.0.0.1:${await listenLocally(web)} -t shop`;
  const { tailing, stderr } = tail(t, `orders ${at}`);
  const listening = terminal.start(`listen orders --port 0 ${at}`.split(' '));
  t.after(() => listening.kill('SIGKILL'));
  let heard = '';
  listening.stderr.on('data', (text) => (heard += text));
  await until(() => looks > 1 && heard.includes('listening to orders'));
  for (const each of [tailing, listening]) {
    each.kill('SIGINT');
    assert.deepEqual(await once(each, 'close'), [0, null], stderr() + heard);
  }
  assert.doesNotMatch(stderr() + heard, /trying again/);
});
