import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { test } from 'node:test';
import { selfSigned } from '../../../harness/http/certificates.ts';
import { freePort, listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { terminal, write } from './shared_terminal.ts';

test('an error escapes what a terminal would obey, as another server may have answered it', async (t) => {
  const web = createServer(
    (_, response) => void response.writeHead(404).end('\x1b]0;mine\x07 \u202enot found'),
  );
  t.after(() => web.close());
  const port = await listenLocally(web);
  const { stderr, status } = await terminal.rtm(`topic list -b 127.0.0.1:${port} -t search`);
  const said = 'http_404: the answer is 404, not from the bus: \\u001b]0;mine\\u0007 \\u202enot found\n';
  assert.deepEqual({ stderr, status }, { stderr: said, status: 2 });
  const { stderr: verbose } = await terminal.rtm(`topic list -v -b 127.0.0.1:${port} -t search`);
  const [first, second, third] = verbose.split('\n');
  assert.equal(`${first}\n`, said);
  assert.match(
    second ?? '',
    /Error: the answer is 404, not from the bus: \\u001b\]0;mine\\u0007 \\u202enot found$/,
  );
  assert.match(third ?? '', /^ {4}at /);
});

test('a person and a script are told once that the bus cannot be reached, and at the end what to check', async (t) => {
  const address = `127.0.0.1:${await freePort()}`;
  const line = `topic list -b ${address} -t x`;
  write('.rtmrc', `busofnobody:\n  bus: bus.example.com\nclosed:\n  bus: ${address}\n`);
  t.after(() => write('.rtmrc', ''));
  const byName = terminal.rtmAlone('topic list -b busofnobody -t x');
  const byEntry = terminal.rtmAlone('topic list -t x', { env: { ROUTEMASTER_BUS: '@closed' } });
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
  const nothing = `; nothing listens at http://${address}: start the bus, or check host and port of `;
  assert.ok(stderr.endsWith(`${nothing}--bus\n`), stderr);
  assert.deepEqual([stdout, status], ['', 2]);
  const ofEntry = (await byEntry).stderr;
  assert.ok(ofEntry.endsWith(`${nothing}@closed in .rtmrc\n`), ofEntry);
  const unknown =
    'host busofnobody is not known here (did you mean @busofnobody of .rtmrc?): check --bus, and DNS';
  const ofName = (await byName).stderr;
  assert.ok(ofName.endsWith(`; the ${unknown}\n`), ofName);
  const { stdout: examined } = await terminal.rtmAlone('doctor -b busofnobody -t x');
  // It comes first: advice about TLS would hide it.
  assert.match(examined, /^BAD +connection +https:\S+ does not answer: .*\n/);
  assert.ok(examined.endsWith(`\n${' '.repeat(18)}The ${unknown}.\n`), examined);
});

test('a person is told after a second that the bus answers 503, as it does while its Redis is away', async (t) => {
  const web = createServer((_, response) => void response.writeHead(503).end());
  t.after(() => {
    web.close();
    web.closeAllConnections();
  });
  const bus = `http://127.0.0.1:${await listenLocally(web)}`;
  const listing = terminal.start(`topic list -b ${bus} -t x`.split(' '));
  t.after(() => listing.kill('SIGKILL'));
  let stderr = '';
  listing.stderr.on('data', (text) => (stderr += text));
  await until(() => stderr === `${bus} answers 503; trying again, for 10 s in all\n`);
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
