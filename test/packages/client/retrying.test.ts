import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer as createProxy, setGlobalProxyFromEnv } from 'node:http';
import { createServer } from 'node:https';
import { createServer as createTcpServer } from 'node:net';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { noOpenssl, selfSigned, TestAuthority } from '../../../harness/http/certificates.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import {
  ConnectionError,
  InternalError,
  ProblemError,
  Routemaster,
  type RoutemasterOptions,
  SubscriberNotFoundError,
  TimeLimitError,
  TooManyFailuresError,
} from '../../../packages/client/src/index.ts';
import { type Answer, cut, problem, ScriptedWeb, say } from './scripted_web.ts';

const URL = 'https://shop.example.com/orders/1';

test('what fails for a moment is sent again, with the same key and body', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const failures = [
    cut,
    say(502),
    say(504),
    problem(503, 'storage_unavailable'),
    problem(429, 'rate_limited'),
    problem(408, 'request_timeout'),
  ];
  for (const failure of failures) {
    web.answers(failure);
    await bus.updated('orders', URL);
    const [first, second, ...others] = web.requests.splice(0);
    assert.ok(first && second && others.length === 0);
    assert.deepEqual([second.key, second.body], [first.key, first.body]);
    assert.ok(second.atMs - first.atMs >= 45, 'it pauses');
  }
});

test('what stays wrong is not sent again', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.answers(problem(500, 'internal'), problem(429, 'too_many_failures'), say(404));
  await assert.rejects(bus.updated('orders', URL), InternalError);
  await assert.rejects(bus.updated('orders', URL), TooManyFailuresError);
  await assert.rejects(bus.updated('orders', URL), (error) => {
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.code, error.status], ['http_404', 404]);
    return true;
  });
  assert.equal(web.requests.length, 3);
});

test('a listing that continues on another server is not followed, so no credentials go there', async () => {
  const [web, other] = [await ScriptedWeb.start(), await ScriptedWeb.start()];
  const path = `@${other.url.replace('http://', '')}/topics`;
  const headers = { 'content-type': 'application/json', link: `<${path}>; rel="next"` };
  web.answers(say(200, headers, '[{"name":"orders"}]'));
  const names: string[] = [];
  await assert.rejects(
    async () => {
      for await (const { name } of web.client().list('GET /topics', {})) names.push(name);
    },
    {
      name: 'ConnectionError',
      message: `a listing continues at ${path}, which is not on the server of the bus`,
    },
  );
  assert.deepEqual(names, ['orders']);
  assert.equal(other.requests.length, 0);
});

test('pauses grow, and last as long as Retry-After says', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.answers(say(503), say(503), say(503), problem(503, 'overloaded', { headers: { 'retry-after': '1' } }));
  await bus.updated('orders', URL);
  const at = web.requests.map(({ atMs }) => atMs);
  const pauses = at.slice(1).map((each, n) => each - (at[n] ?? 0));
  assert.ok(
    [50, 100, 200, 1000].every((min, n) => (pauses[n] ?? 0) >= min - 5),
    pauses.join(', '),
  );
});

test('topics that the bus does not take for the moment, as of a partition that is away, keep no other waiting', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const away = Array.from({ length: 40 }, (_, n) => `away_${n}`);
  web.answers(...away.map(() => problem(503, 'storage_unavailable', { headers: { 'retry-after': '3600' } })));
  const ended = new AbortController();
  const waiting = away.map((topic) => bus.updated(topic, URL, { signal: ended.signal }));
  const outcomes = Promise.allSettled(waiting);
  await until(() => web.requests.length === away.length);
  await bus.updated('orders', URL);
  ended.abort();
  assert.ok((await outcomes).every(({ status }) => status === 'rejected'));
  await Promise.all(away.map((topic) => bus.updated(topic, URL)));
  assert.equal(web.requests.length, 2 * away.length + 1);
});

test('requests that have waited for their next attempt are 16 at a time, as all are', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const topics = Array.from({ length: 40 }, (_, n) => `topic_${n}`);
  const held: Parameters<Answer>[0][] = [];
  const hold: Answer = (response) => void held.push(response);
  web.answers(...topics.map(() => say(503)), ...topics.map(() => hold));
  const publishes = Promise.all(topics.map((topic) => bus.updated(topic, URL)));
  for (let answered = 0; answered < topics.length; ) {
    await until(() => held.length === Math.min(16, topics.length - answered));
    answered += held.length;
    for (const response of held.splice(0)) response.writeHead(204).end();
  }
  await publishes;
});

test('while the client is over its rate, or the bus has too much to do, requests that wait keep their places', async () => {
  for (const [status, code] of [
    [429, 'rate_limited'],
    [503, 'overloaded'],
  ] as const) {
    const web = await ScriptedWeb.start();
    const bus = web.client();
    const topics = Array.from({ length: 20 }, (_, n) => `topic_${n}`);
    web.answers(...Array.from({ length: 16 }, () => problem(status, code)));
    await Promise.all(topics.map((topic) => bus.updated(topic, URL)));
    const paths = web.requests.map(({ path }) => path);
    assert.ok(paths.slice(0, 16).includes(paths[16] ?? ''), `${code}: ${paths[16]} was not sent before`);
    assert.equal(paths.length, 16 + topics.length);
  }
});

test('a call waits for a bus that is away', async () => {
  let resets = 0;
  const proxy = createTcpServer((socket) => {
    resets++;
    socket.resetAndDestroy();
  });
  const port = await listenLocally(proxy);
  const bus = new Routemaster({ url: `http://127.0.0.1:${port}`, token: 'shop' });
  const calls = [bus.updated('orders', URL), bus.pulse()];
  await until(() => resets === 2);
  proxy.close();
  await until(() => !proxy.listening);
  const web = await ScriptedWeb.start(port);
  await Promise.all(calls);
  assert.equal(web.requests.length, 2);
});

test('a call is repeated in Jest too, where an error of fetch is of another TypeError than the global one', async (t) => {
  const web = await ScriptedWeb.start();
  const own = globalThis.fetch;
  t.after(() => {
    globalThis.fetch = own;
  });
  const another = runInNewContext('(message, cause) => new TypeError(message, { cause })');
  globalThis.fetch = (...request) =>
    own(...request).catch(({ message, cause }) => {
      throw another(message, cause);
    });
  web.answers(cut);
  await web.client().updated('orders', URL);
  assert.equal(web.requests.length, 2);
});

test('a call that would be done twice is repeated only if it cannot be done', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.answers(problem(503, 'overloaded'), say(201, { 'content-type': 'application/json' }, '{"token":"a"}'));
  assert.deepEqual(await bus.createClient({ name: 'a' }), { token: 'a' });
  assert.equal(web.requests.splice(0).length, 2);
  for (const failure of [cut, say(502), problem(503, 'storage_unavailable')]) {
    web.answers(failure);
    await assert.rejects(bus.rotateSecret('a'), (error) => {
      return error instanceof ProblemError || (error instanceof ConnectionError && error.mayBeDone);
    });
    assert.equal(web.requests.splice(0).length, 1);
  }
  web.answers(cut);
  await bus.subscribe({ topics: [], callback: 'https://shop.example.com' });
  assert.equal(web.requests.length, 2);
});

test('what a repeated DELETE does not find was deleted before', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.answers(cut, problem(404, 'subscriber_not_found'), problem(404, 'subscriber_not_found'));
  await bus.leave();
  await assert.rejects(bus.leave(), SubscriberNotFoundError);
});

test('a certificate that is not trusted is no reason to try again', { skip: noOpenssl }, async (t) => {
  const authority = new TestAuthority();
  t.after(() => authority.remove());
  const ofUnknownAuthority = { key: readFileSync(authority.key), cert: readFileSync(authority.cert) };
  for (const certificate of [selfSigned(), ofUnknownAuthority]) {
    const server = createServer(certificate);
    t.after(() => server.close());
    const port = await listenLocally(server);
    const bus = new Routemaster({ url: `https://127.0.0.1:${port}`, token: 'shop' });
    const publish = bus.updated('orders', URL);
    await assert.rejects(publish, (error) => error instanceof ConnectionError && !error.isTransient);
  }
});

test('nor is a port that fetch does not connect to', async () => {
  const bus = new Routemaster({ url: 'http://127.0.0.1:9', token: 'shop' });
  await assert.rejects(bus.pulse(), {
    code: 'no_connection',
    isTransient: false,
    message: 'no answer: this port is reserved for another protocol, and HTTP is not sent to it',
  });
});

test('nor is a server without TLS', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client({ url: web.url.replace('http:', 'https:') });
  await assert.rejects(bus.pulse(), {
    code: 'no_connection',
    isTransient: false,
    message: 'no answer: what answers there does not speak TLS, but perhaps plain http',
  });
});

test('a client cannot be made without a token, or with a url that is none', () => {
  for (const url of ['bus.example.com', 'localhost:3000', 'ftp://bus.example.com', 'https://', undefined])
    assert.throws(
      () => new Routemaster({ url: url as string, token: 'shop' }),
      new TypeError(`the url must be like https://bus.example.com, not ${url}`),
    );
  for (const extra of ['?', '?tenant=1', '#', '/bus#top'])
    assert.throws(
      () => new Routemaster({ url: `https://bus.example.com${extra}`, token: 'shop' }),
      new TypeError(`the url must have no query and no fragment: https://bus.example.com${extra}`),
    );
  for (const token of ['', undefined])
    assert.throws(
      () => new Routemaster({ url: URL, token: token as string }),
      /^TypeError: the token is missing/,
    );
});

test('a client cannot be made with a misspelt option, a wrong type, or a secret that has no value', () => {
  const make = (options: object) => () => new Routemaster({ url: URL, token: 'shop', ...options });
  assert.throws(
    make({ sceret: 'x' }),
    /^TypeError: there is no option sceret; the options are url, token, secret, digest, timeoutMs, attemptTimeoutMs$/,
  );
  for (const wrong of [{ timeoutMs: '5' }, { attemptTimeoutMs: null }])
    assert.throws(make(wrong), /^TypeError: (timeoutMs|attemptTimeoutMs) must be a number$/);
  assert.throws(make({ digest: 'false' }), /^TypeError: digest must be a boolean$/);
  for (const secret of [undefined, ''])
    assert.throws(make({ secret }), /^TypeError: secret has no value; leave it out if there is none$/);
  for (const nothing of [undefined, null, URL] as unknown as RoutemasterOptions[])
    assert.throws(
      () => new Routemaster(nothing),
      /^TypeError: give the options as an object, such as { url, token, secret }$/,
    );
  assert.doesNotThrow(make({ digest: undefined, timeoutMs: undefined }));
});

test('a redirect says where the bus is', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const to = (location: string) => say(308, { location });
  web.answers(to('https://bus.example.com/below/topics/orders'), to('https://127.0.0.1/topics?limit=100'));
  const message = (url: string) =>
    `the answer is a redirect: call the bus at ${url}; a bus in production (FORCE_SSL) expects a proxy that ends TLS`;
  await assert.rejects(bus.updated('orders', URL), { message: message('https://bus.example.com/below') });
  await assert.rejects(bus.topics().next(), { message: message('https://127.0.0.1') });
  web.answers(to('/login'));
  await assert.rejects(bus.pulse(), { message: 'the answer is a redirect: call the bus at /login' });
});

test('a web page is no answer of the bus', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const page = say(200, { 'content-type': 'text/html; charset=utf-8' }, '<!doctype html><title>Shop</title>');
  const shouted = say(200, { 'content-type': 'Text/HTML' }, '<!doctype html>');
  web.answers(page, shouted, page, page);
  const isRefusal = (error: unknown) => {
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.code, error.status], ['http_200', 200]);
    assert.match(error.detail, /not from the bus: <!doctype html>/);
    return true;
  };
  await assert.rejects(bus.updated('orders', URL), isRefusal);
  await assert.rejects(bus.updated('orders', URL), isRefusal);
  await assert.rejects(bus.topics().next(), isRefusal);
  assert.match(await bus.call('GET /docs', {}), /^<!doctype html>/);
});

test('a publish is stored only if the answer is that of the bus, which has no body', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const others = [
    say(200, { 'content-type': 'text/plain' }, 'welcome'),
    say(200, { 'content-type': 'application/json' }, '{}'),
    say(202),
  ];
  for (const other of others) {
    web.answers(other);
    await assert.rejects(bus.updated('orders', URL), /: the answer is 20\d, not from the bus/);
  }
  web.answers(say(200)); // as in compatibility mode
  await bus.updated('orders', URL);
});

test('a proxy that refuses is named as the reason, and nothing is done', async (t) => {
  const proxy = createProxy();
  proxy.on('connect', (_, socket) => void socket.end('HTTP/1.1 403 Forbidden\r\n\r\n'));
  const port = await listenLocally(proxy);
  const restore = setGlobalProxyFromEnv({ HTTPS_PROXY: `http://127.0.0.1:${port}` });
  t.after(() => {
    restore();
    proxy.close();
  });
  const bus = new Routemaster({ url: 'https://bus.example.com', token: 'shop', timeoutMs: 1500 });
  await assert.rejects(bus.updated('orders', URL), (error) => {
    assert.ok(error instanceof TimeLimitError);
    assert.match(error.message, /failed: no answer: Proxy response \(403\)/);
    assert.equal(error.mayBeDone, false);
    return true;
  });
});
