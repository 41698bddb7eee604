import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { freePort, listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus, client } from './shared_bus.ts';
import { terminal } from './shared_terminal.ts';

/** JSON with numbers that JavaScript would round, and strings that look like such numbers. */
const LONG =
  '{"a":[12345678901234567890,-9223372036854775808,0.1234567890123456],"b\\"9007199254740993":"9007199254740993"}';

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
  const [callback = ''] = /http:[^;]+/.exec(stderr) ?? [];
  for (const headers of [{}, { authorization: `Basic ${btoa('other:x')}` }])
    assert.equal((await fetch(callback, { method: 'POST', body: '[]', headers })).status, 401);
  await until(() => stderr.includes('refused a delivery'));
  const refused = await terminal.rtm(`listen heard --port 0 ${search.options}`);
  assert.match(
    refused.stderr,
    /^already_subscribed: .* at http:\/\/127\.0\.0\.1:\d+\/, .* rtm token add, .* rtm sub del ends it\n$/,
  );

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
  const refusals = stderr.split('\n').filter((line) => line.startsWith('refused'));
  assert.deepEqual(refusals, [
    'refused a delivery that is not for this subscription, but perhaps for another with a callback at this port; ' +
      'the bus sends it again later (said once)',
  ]);
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

test('listen refuses a port that does not exist', async () => {
  const { stderr, status } = await terminal.rtm(
    `listen orders --port 70000 ${(await client('search')).options}`,
  );
  assert.match(stderr, /^bad_usage: --port must be at most 65535, not 70000\n/);
  assert.equal(status, 1);
});

test('listen says what to give if the bus may not deliver to this machine', async (t) => {
  const problem = {
    code: 'bad_callback',
    title: 'bad',
    status: 400,
    detail: 'callback: it must begin with https://',
  };
  const web = createServer(({ method }, response) => {
    if (method === 'GET') return void response.writeHead(200).end('[]');
    response.writeHead(400, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem));
  });
  t.after(() => web.close());
  const at = `-b 127.0.0.1:${await listenLocally(web)} -t search`;
  const own = await terminal.rtm(`listen orders --port 0 ${at}`);
  assert.match(
    own.stderr,
    /^bad_callback: callback: it must begin with https:\/\/; .* http:\/\/127\.0\.0\.1:\d+\/: .* --port .* --callback /,
  );
  const given = await terminal.rtm(`listen orders --port 0 --callback http://a.example.com/ ${at}`);
  assert.equal(given.stderr, `bad_callback: ${problem.detail}\n`);
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

test('listen says at Ctrl-C that somebody else has just ended its subscription', async (t) => {
  const search = await client('search');
  const { listening, stderr } = await listen(t, 'ended', search.options);
  await terminal.rtm(`sub del ${search.options}`);
  listening.kill('SIGINT');
  assert.deepEqual(await once(listening, 'close'), [2, null]);
  // On a busy machine, listen may have noticed it before Ctrl-C.
  assert.match(
    stderr(),
    /\nsubscriber_not_found: (there is no such subscriber|somebody else has ended the subscription)\n$/,
  );
});

test('listen ends, and says so, when somebody else ends its subscription or removes its client', async (t) => {
  const ends = {
    'sub del': /\nsubscriber_not_found: somebody else has ended the subscription\n$/,
    'token del': /\nunauthenticated: the bus refuses these credentials for this call: /,
  };
  for (const [command, said] of Object.entries(ends)) {
    const search = await client('search');
    const { listening, stderr } = await listen(t, 'ended', search.options);
    const closed = once(listening, 'close');
    await terminal.rtm(
      command === 'sub del' ? `sub del ${search.options}` : `token del ${search.token} ${asRoot()}`,
    );
    assert.deepEqual(await closed, [2, null]);
    assert.match(stderr(), said);
  }
});

/** Starts `rtm listen`, and resolves when it listens. `stderr` returns what it has written there so far. */
async function listen(t: TestContext, topic: string, options: string) {
  const listening = terminal.start(`listen ${topic} --port 0 ${options}`.split(' '));
  t.after(() => listening.kill('SIGKILL'));
  let stderr = '';
  listening.stderr.on('data', (text) => (stderr += text));
  await until(() => stderr.includes(`listening to ${topic}`));
  return { listening, stderr: () => stderr };
}

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
  const { stderr, status } = await terminal.rtm(`listen heard --port ${port} ${options}`);
  const advice = `port ${port} is in use: stop what listens there, or give --port one of ROUTEMASTER_CALLBACK_PORTS`;
  assert.ok(stderr.startsWith(`port_taken: ${advice}`), stderr);
  assert.equal(status, 2);
});

test('listen takes a redirect of its target for a refusal, as the bus does', async (t) => {
  const [shop, search] = [await client('shop'), await client('search')];
  const paths: (string | undefined)[] = [];
  const web = createServer(({ method, url }, response) => {
    paths.push(`${method} ${url}`);
    response.writeHead(url === '/events' ? 302 : 200, { location: '/login' }).end();
  });
  const target = `http://127.0.0.1:${await listenLocally(web)}/events`;
  t.after(() => {
    web.close();
    web.closeAllConnections();
  });
  const { listening, stderr } = await listen(t, 'redirected', `--forward-to ${target} ${search.options}`);
  await terminal.rtm(`pub created redirected https://shop.example.com/1 ${shop.options}`);
  await until(() => paths.length > 1);
  assert.equal(paths[1], 'POST /events', 'it comes again');
  assert.match(stderr(), /\nnot taken, so the bus sends it again: \S+ answered 302\n/);
  listening.kill('SIGINT');
  assert.deepEqual(await once(listening, 'close'), [0, null]);
});

test('listen ends at Ctrl-C also while its target does not answer', async (t) => {
  const [shop, search] = [await client('shop'), await client('search')];
  const forwarded = Promise.withResolvers<void>();
  const web = createServer(() => forwarded.resolve());
  const target = `http://127.0.0.1:${await listenLocally(web)}/events`;
  t.after(() => {
    web.close();
    web.closeAllConnections();
  });
  const { listening, stderr } = await listen(t, 'unanswered', `--forward-to ${target} ${search.options}`);
  await terminal.rtm(`pub created unanswered https://shop.example.com/1 ${shop.options}`);
  await forwarded.promise;
  listening.kill('SIGINT');
  assert.deepEqual(await once(listening, 'close'), [0, null]);
  assert.doesNotMatch(stderr(), /not taken/, 'it did not wait for the time limit of the target');
});

test('listen says that its subscription may be left if it does not learn whether it has one', async (t) => {
  const web = createServer(({ method }, response) => {
    if (method === 'POST') response.writeHead(500).end();
    else response.writeHead(204).end();
  });
  const port = await listenLocally(web);
  t.after(() => web.close());
  const { stderr, status } = await terminal.rtm(`listen left --port 0 -b 127.0.0.1:${port} -t search`);
  assert.match(stderr, /^http_500: .*; the subscription may be left: rtm sub del ends it\n$/);
  assert.equal(status, 2);
});

test('listen does not end a subscription that has replaced its own, as of the service with this token', async (t) => {
  const { callback } = await bus.receiver(t);
  for (const isAtOnce of [true, false]) {
    const service = await client('service');
    const { listening, stderr } = await listen(t, 'replaced', service.options);
    const closed = once(listening, 'close');
    await terminal.rtm(`sub add ${callback} replaced --uuid my-password ${service.options}`);
    // Otherwise it finds out by itself within some seconds.
    if (isAtOnce) listening.kill('SIGINT');
    assert.deepEqual(await closed, [2, null]);
    assert.match(stderr(), /\nsubscription_replaced: .* has subscribed with the same token, at http:/);
    const { stdout } = await terminal.rtm(`sub list --json ${service.options}`);
    assert.equal(JSON.parse(stdout)[0]?.callback, callback);
  }
});

test('listen knows its own subscription by a --callback too, also if the other took its uuid over', async (t) => {
  const { callback } = await bus.receiver(t);
  const service = await client('service');
  const tunnel = `${callback.replace('http://', 'http://tunnel@')}&by=tunnel`;
  for (const isReplaced of [false, true]) {
    const { listening, stderr } = await listen(t, 'tunnelled', `--callback ${tunnel} ${service.options}`);
    const closed = once(listening, 'close');
    // Without --uuid, `sub add` keeps the uuid of the subscription that it replaces.
    if (isReplaced) await terminal.rtm(`sub add ${callback} tunnelled ${service.options}`);
    listening.kill('SIGINT');
    assert.deepEqual(await closed, [isReplaced ? 2 : 0, null], stderr());
    const { stdout } = await terminal.rtm(`sub list --json ${service.options}`);
    assert.equal(JSON.parse(stdout)[0]?.callback, isReplaced ? callback : undefined);
  }
});
