import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { test } from 'node:test';
import { selfSigned } from '../../../harness/http/certificates.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { inTrouble, passOn, serving } from './doctor_servers.ts';
import { asRoot, bus } from './shared_bus.ts';
import { Terminal } from './terminal.ts';

const terminal = new Terminal();

test('doctor says to which topics nobody has published, and if there are no topics', async (t) => {
  const { receiver, topic, publisher, subscriber } = await bus.scene(t);
  const { token, secret } = subscriber;
  const examined = () => terminal.rtm(`doctor -b ${bus.url} -t ${token}:${secret}`);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  const subscribe = (topics: string[]) =>
    subscriber.call('POST', '/subscription', { topics, callback: receiver.callback });
  for (const [topics, said] of [
    [['prodcuts', topic], 'nobody has published to prodcuts yet; rtm topic list shows all topics'],
    [[], 'subscribed to no topic'],
  ] as const) {
    await subscribe([...topics]);
    const { stdout, status } = await examined();
    assert.match(stdout, new RegExp(`^ok +topics +${said}$`, 'm'));
    assert.equal(status, 0);
  }
  await subscriber.call('DELETE', '/subscriber');
  assert.match((await examined()).stdout, /^ok +topics +subscribed to no topic$/m);
});

test('doctor finds wrong credentials, and nobody at all', async () => {
  const wrong = await terminal.rtm(`doctor -b ${bus.url} -t nobody`);
  assert.match(
    wrong.stdout,
    /^ok +connection .*\nok +clock .*\nBAD +credentials +unauthenticated: .*\n +Check token/,
  );
  assert.equal(wrong.status, 2);
  const nobody = await terminal.rtm('doctor -b 127.0.0.1:9 -t x');
  assert.match(nobody.stdout, /^BAD +connection .*\n +\w.*\n$/);
  assert.deepEqual([nobody.stderr, nobody.status], ['not_well: 1 of 1 checks found something\n', 2]);
});

test('doctor finds a clock that is wrong, and a server that is no bus', async (t) => {
  const port = await serving(t, ({ url }, response) => {
    response.sendDate = false;
    const date = new Date(Date.now() - 400_000).toUTCString();
    response.writeHead(url === '/health' ? 200 : 401, { date }).end('{"from":"a later release"}');
  });
  const { stdout } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t x`);
  assert.match(stdout, /^BAD +clock +this machine is (399|400|401) s ahead of the bus\n +Run NTP/m);
  const other = await serving(t, (_, response) => void response.writeHead(302, { location: '/' }).end());
  assert.match(
    (await terminal.rtm(`doctor -b 127.0.0.1:${other} -t x`)).stdout,
    /answered 302.*\n +Something else/,
  );
  const agreeing = await serving(t, (_, response) => void response.end('welcome'));
  assert.match(
    (await terminal.rtm(`doctor -b 127.0.0.1:${agreeing} -t x`)).stdout,
    /^BAD +connection .* answered 200, but not as a bus does\n +Something else.*\n$/,
  );
});

test('a bus behind a router may be below a path', async (t) => {
  const paths: string[] = [];
  const port = await serving(t, async ({ url = '', headers }, response) => {
    paths.push(url);
    if (!url.startsWith('/bus/')) return void response.writeHead(404).end();
    await passOn({ url: url.slice('/bus'.length), headers }, response);
  });
  // Not as root, whom doctor would tell of the callbacks of all other tests.
  const { token, secret } = (await bus.scene(t)).publisher;
  for (const path of ['/bus', '/bus/']) {
    const { stdout, status } = await terminal.rtm(`doctor -b 127.0.0.1:${port}${path} -t ${token}:${secret}`);
    assert.equal(status, 0, stdout);
  }
  for (const asked of ['/bus/health', '/bus/metrics']) assert.ok(paths.includes(asked));
  const wrong = await terminal.rtm(`doctor -b 127.0.0.1:${port}/buses -t ${ROOT_KEY}`);
  assert.match(
    wrong.stdout,
    /^BAD +connection .*\/buses answered 404 in \d+ ms\n +Something else .* check --bus\.\n$/,
  );
});

test('doctor says what to do if the bus cannot use its Redis', async (t) => {
  const port = await serving(t, ({ url }, response) => {
    if (url === '/health') return void response.end('{}');
    response.writeHead(503, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ code: 'storage_unavailable', detail: 'it cannot be reached' }));
  });
  const { stdout, stderr } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t x`);
  assert.match(
    stdout,
    /^BAD +metrics +storage_unavailable: it cannot be reached\n +Redis is away, lacks the data of the bus, or refuses .*: the log/m,
  );
  assert.match(stderr, /^http:\S+ answers 503; trying again, .*\nnot_well: 1 of 3 checks found something\n$/);
});

test('doctor says that publishes are refused while Redis refuses writes, and why, before all advice on workers', async (t) => {
  const { token, secret } = (await bus.scene(t)).publisher;
  const { redis } = bus.store;
  await redis.config('SET', 'min-replicas-to-write', '1');
  const { stdout, status } = await terminal.rtm(`doctor -b ${bus.url} -t ${token}:${secret}`);
  // What ends the scene stores something.
  await redis.config('SET', 'min-replicas-to-write', '0');
  const found =
    /^ok +credentials .*\nBAD +writes +publishes are refused: Redis refuses writes \(NOREPLICAS\)\n +Too few replicas .*\n\w+ +workers /m;
  assert.match(stdout, found);
  assert.equal(status, 2);
});

test('doctor does not send anybody to start a worker while Redis refuses what workers store', async (t) => {
  const detail = 'partition 2 refuses commands (MISCONF). Nothing was changed; try again in a moment.';
  const port = await serving(t, ({ url }, response) => {
    if (url === '/health') return void response.end('{}');
    if (url === '/metrics') return void response.end('routemaster_delivery_workers{kind="regular"} 0\n');
    response.writeHead(503, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ code: 'storage_unavailable', detail }));
  });
  const { stdout } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
  assert.match(
    stdout,
    /^BAD +writes +publishes are refused: partition 2 refuses writes \(MISCONF\)\n +Redis cannot save .*\nBAD +workers +no worker is alive\n +A worker that runs cannot say so /m,
  );
  assert.doesNotMatch(stdout, /lists|Start a worker/);
});

test('doctor does not say that publishes are refused if the ACL of Redis lacks some command', async (t) => {
  const port = await serving(t, ({ url }, response) => {
    if (url === '/health') return void response.end('{}');
    if (url === '/metrics') return void response.end('routemaster_delivery_workers{kind="regular"} 1\n');
    response.writeHead(503, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ code: 'storage_unavailable', detail: 'Redis refuses commands (NOPERM).' }));
  });
  const { stdout } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
  const found =
    /^BAD +commands +Redis refuses commands \(NOPERM\): calls that need them are answered 503\n +The ACL .*\n\w+ +workers /m;
  assert.match(stdout, found);
});

test('doctor says at which URL to call a bus that redirects to https', async (t) => {
  const port = await serving(t, ({ url = '' }, response) => {
    if (url === '/health') return void response.end('{}');
    response.writeHead(308, { location: `https://127.0.0.1${url}` }).end();
  });
  const { stdout } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t x`);
  const advice =
    'call the bus at https://127.0.0.1; a bus in production (FORCE_SSL) expects a proxy that ends TLS\n';
  assert.ok(stdout.endsWith(`http_308: the answer is a redirect: ${advice}`), stdout);
});

test('doctor does not take root for a client if the bus cannot say at the moment', async (t) => {
  const port = await serving(t, async (request, response) => {
    // 501 is no passing failure, so rtm does not try again.
    if (request.url?.startsWith('/jobs')) return void response.writeHead(501).end();
    await passOn(request, response);
  });
  const { stdout, status } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
  assert.match(stdout, /^BAD +lists +http_501: .*\n$/m);
  assert.doesNotMatch(stdout, /topics|callback/);
  assert.equal(status, 2);
});

test('doctor does not take lost data for a Redis that will be back', async (t) => {
  const detail = 'Redis has lost the data of the bus. Nothing was changed; try again in a moment.';
  const port = await serving(t, ({ url }, response) => {
    if (url === '/health') return void response.end('{}');
    // A bus answers 503, which rtm would try again for ten seconds.
    response.writeHead(501, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ code: 'storage_unavailable', detail }));
  });
  const { stdout, status } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
  assert.match(
    stdout,
    /^BAD +metrics +storage_unavailable: Redis has lost .*\n +Stop the bus, and restore a backup/m,
  );
  assert.equal(status, 2);
});

test('doctor says what to do if Redis refuses what doctor needs', async (t) => {
  for (const [detail, advice] of [
    ['Redis refuses commands (READONLY). Nothing was changed', 'The bus calls a replica: correct'],
    ['Redis refuses the user or password (WRONGPASS). Nothing was changed', 'Correct the user and password'],
    ['Redis refuses the user or password (NOAUTH). Nothing was changed', 'Redis wants a password'],
    ['partition 2 refuses commands (NOPERM). Nothing was changed', 'The ACL of Redis forbids a command'],
  ] as const) {
    const port = await serving(t, ({ url }, response) => {
      if (url === '/health') return void response.end('{}');
      // A bus answers 503, which rtm would try again for ten seconds.
      response.writeHead(501, { 'content-type': 'application/problem+json' });
      response.end(JSON.stringify({ code: 'storage_unavailable', detail }));
    });
    const { stdout, status } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
    assert.ok(stdout.includes(`storage_unavailable: ${detail}\n                  ${advice}`), stdout);
    assert.equal(status, 2);
  }
});

test('doctor says which partitions are away, although all calls but /metrics fail', async (t) => {
  const port = await inTrouble(t, 'partition_up{partition="3"} 0', /^\/(pulse|jobs|subscriptions)/);
  const { stdout, stderr, status } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
  assert.match(
    stdout,
    /^ok +workers .*\nBAD +partitions +partition 3 is away\n +Start the Redis that has them, .*; the log/m,
  );
  assert.equal(stderr, 'not_well: 1 of 5 checks found something\n');
  assert.equal(status, 2);
});

test('doctor says if memory is full', async (t) => {
  const port = await inTrouble(t, 'redis_memory_high_mark_bytes 1');
  const { stdout, status } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
  assert.match(stdout, /^BAD +memory +Redis stores .*\n +Publishes are refused/m);
  assert.equal(status, 2);
});

test('doctor says if Redis may delete events', async (t) => {
  const port = await inTrouble(t, 'redis_may_evict 1');
  const { stdout, status } = await terminal.rtm(`doctor -b 127.0.0.1:${port} -t ${ROOT_KEY}`);
  assert.match(stdout, /^BAD +policy +Redis may delete events: .*\n +Nobody would be told/m);
  assert.equal(status, 2);
});

test('doctor finds a certificate that is not trusted, and plain http where https should be', async (t) => {
  const ok: RequestListener = (_, response) => void response.end('{}');
  const secure = await serving(t, ok, selfSigned());
  const { stdout, status } = await terminal.rtmAlone(`doctor -b https://127.0.0.1:${secure} -t x`);
  assert.match(stdout, /^BAD +tls +the certificate is not trusted: .*\n +Install its authority/);
  assert.equal(status, 2);
  assert.match(
    (await terminal.rtm(`doctor -b localhost:${secure} -t x`)).stdout,
    /^BAD +connection .*\n +If https is served there, write https:\/\//,
  );
  const plain = await serving(t, ok);
  const why = 'what answers there does not speak TLS, but perhaps plain http';
  const atPlain = `-b https://127.0.0.1:${plain} -t x`;
  assert.match(
    (await terminal.rtm(`doctor ${atPlain}`)).stdout,
    new RegExp(`^BAD +tls +no TLS connection: ${why}\n +Try http://.*\nBAD +connection .* answer: ${why}\n`),
  );
  assert.equal(
    (await terminal.rtm(`topic list ${atPlain}`)).stderr,
    `no_connection: no answer: ${why}; rtm doctor says what to do\n`,
  );
});

test('doctor and the other commands say that a port is not for HTTP', async () => {
  const why = 'this port is reserved for another protocol, and HTTP is not sent to it';
  const { stdout } = await terminal.rtm('doctor -b localhost:1 -t x');
  assert.equal(
    stdout,
    `BAD  connection   http://localhost:1 does not answer: ${why}\n${' '.repeat(18)}Check the port of --bus.\n`,
  );
  const { stderr } = await terminal.rtm('topic list -b localhost:1 -t x');
  assert.equal(stderr, `no_connection: no answer: ${why}; rtm doctor says what to do\n`);
});

test('doctor takes a client for a client in compatibility mode too, and root is told what pub takes', async (t) => {
  const { token, secret } = (await bus.scene(t)).subscriber;
  await bus.start('web', { ROUTEMASTER_COMPATIBILITY: 'routemaster' });
  const { stdout, status } = await terminal.rtm(`doctor -b ${bus.url} -t ${token}:${secret}`);
  assert.match(stdout, /^ok +topics +nobody has published to \w+ yet/m);
  assert.equal(status, 0, stdout);
  const byRoot = await terminal.rtm(`pub noop orders https://shop.example.com/1 ${asRoot()}`);
  assert.match(
    byRoot.stderr,
    /^unauthenticated: .*: give a client's TOKEN:SECRET, by .* rtm token add SERVICE\n$/,
  );
});
