import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, createServer } from 'node:http';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { basic, problemIn, send } from '../../harness/http/api.ts';
import { buildAuthentication } from '../../harness/http/authentication.ts';
import { pipelineParts } from '../../harness/http/pipeline.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { action } from '../../src/console/page.ts';
import { Admission } from '../../src/http/admission.ts';
import { createApp } from '../../src/http/app.ts';
import { ANYONE, NO_CONTENT, route } from '../../src/routing/route.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const redis = new TestStore();
const KNOWN = { authorization: basic('pub', '') };
/** A second client. Each client may hold half of the room. */
const OTHER = { authorization: basic('other', '') };
/** Clients whose lookups wait for `endSlowLookups`. */
const SLOW = Array.from({ length: 6 }, (_, n) => `slow${n}`);
const [PLAIN, GENERAL] = ['/topics/widgets', '/topics/widgets?'];

/** Starts a web process that admits `maxRequests` publishes at a time, and answers them when `release` is called. */
async function crampedWeb(t: TestContext, maxRequests: number) {
  const waiting: (() => void)[] = [];
  let lookups = 0;
  const slowLookups = Promise.withResolvers<void>();
  const clients = new Clients(redis.store, []);
  for (const token of ['pub', 'other', ...SLOW]) await clients.register('pub', token);
  const find = async (token: string) => {
    lookups++;
    if (SLOW.includes(token)) await slowLookups.promise;
    return clients.find(token);
  };
  const log = pino({ level: 'silent' });
  const authentication = buildAuthentication({
    ...{ rootKey: 'root', clients: new ClientDirectory({ find }), log, store: redis.store },
  });
  const publish = route('POST /topics/:name', ['client'], {
    takesText: true,
    answers: { 204: null },
    handle: async () => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      return NO_CONTENT;
    },
  });
  const admission = new Admission({ maxRequests });
  const refused: string[] = [];
  const recorder = { callRefused: (code: string) => void refused.push(code) };
  const form = action('/console/login', ANYONE, { act: async () => '/console' });
  const app = createApp([publish, form], pipelineParts({ authentication, log, admission, recorder }));
  const server = createServer(app);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => {
    agent.destroy();
    server.close().closeAllConnections();
  });
  const port = await listenLocally(server);
  return {
    port,
    lookups: () => lookups,
    /** The codes of refused calls, as they are counted. */
    refused,
    publish: (path = PLAIN, headers = {}, body = EVENT) => send(port, 'POST', path, headers, body),
    /** Publishes on one kept connection. */
    publishAgain: (headers = {}, body = EVENT) => send(port, 'POST', PLAIN, headers, body, agent),
    endSlowLookups: () => slowLookups.resolve(),
    connections: () => promisify(server.getConnections.bind(server))(),
    full: () => until(() => waiting.length === maxRequests),
    release: () => {
      for (const done of waiting.splice(0)) done();
    },
  };
}

test('a publish beyond the limit is refused at once, on either path, before authentication', async (t) => {
  const web = await crampedWeb(t, 2);
  const underWay = [web.publish(PLAIN, KNOWN), web.publish(GENERAL, OTHER)];
  await web.full();
  const before = web.lookups();
  for (const headers of [KNOWN, {}, { authorization: basic('stranger', '') }]) {
    for (const path of [PLAIN, GENERAL]) {
      const refused = await web.publish(path, headers);
      const { status, code, detail } = problemIn(refused);
      assert.deepEqual([status, code, refused.headers['retry-after']], [503, 'overloaded', '1']);
      assert.match(detail, /as many requests under way as it can take; try again/);
    }
  }
  assert.equal(web.lookups(), before);
  assert.deepEqual(web.refused, Array(6).fill('overloaded'));
  web.release();
  assert.deepEqual(
    (await Promise.all(underWay)).map(({ status }) => status),
    [204, 204],
  );
});

test('a form beyond the limit is refused with a page, as its sender is a person', async (t) => {
  const web = await crampedWeb(t, 1);
  const underWay = web.publish(PLAIN, KNOWN);
  await web.full();
  const type = 'application/x-www-form-urlencoded';
  const { status, headers, text } = await web.publish(
    '/console/login',
    { 'content-type': type },
    'user=root',
  );
  assert.deepEqual([status, headers['content-type']], [503, 'text/html; charset=utf-8']);
  assert.match(text, /as many requests under way as it can take; try again in a moment/);
  assert.deepEqual(web.refused, ['overloaded']);
  web.release();
  assert.equal((await underWay).status, 204);
});

test('a refused publish keeps its connection, and its body is not read as a request', async (t) => {
  const web = await crampedWeb(t, 1);
  const underWay = web.publish(PLAIN, KNOWN);
  await web.full();
  for (const body of [EVENT, `POST /topics/widgets HTTP/1.1\r\n\r\n${' '.repeat(200_000)}`]) {
    const refused = await web.publishAgain(KNOWN, body);
    assert.deepEqual([refused.status, refused.headers.connection], [503, 'keep-alive']);
  }
  web.release();
  assert.equal((await underWay).status, 204);
  const accepted = web.publishAgain(KNOWN);
  await web.full();
  web.release();
  assert.equal((await accepted).status, 204);
});

test('a caller without credentials takes no room, however slow its body is', async (t) => {
  const web = await crampedWeb(t, 1);
  const strangers = Array.from({ length: 5 }, () => connect(web.port, '127.0.0.1'));
  t.after(() => strangers.map((each) => each.destroy()));
  await Promise.all(
    strangers.map(async (each) => {
      each.write(`POST ${PLAIN} HTTP/1.1\r\nHost: bus\r\nContent-Length: 100\r\n\r\n{`);
      assert.match(String((await once(each, 'data'))[0]), /^HTTP\/1.1 401/);
    }),
  );
  const accepted = web.publish(PLAIN, KNOWN);
  await web.full();
  web.release();
  assert.equal((await accepted).status, 204);
});

test('a client that leaves during its lookup frees its room, however much of its body has arrived', async (t) => {
  const web = await crampedWeb(t, 2);
  const bodies = [EVENT, EVENT.slice(0, 5), ''];
  for (const [n, body] of [...bodies, ...bodies].entries()) {
    const socket = connect(web.port, '127.0.0.1');
    const before = web.lookups();
    const head = `POST ${PLAIN} HTTP/1.1\r\nHost: bus\r\nAuthorization: ${basic(SLOW[n] ?? '', '')}`;
    socket.write(`${head}\r\nContent-Length: ${EVENT.length}\r\n\r\n${body}`);
    await until(() => web.lookups() > before);
    socket.destroy();
  }
  await until(async () => (await web.connections()) === 0);
  web.endSlowLookups();
  const accepted = [web.publish(PLAIN, KNOWN), web.publish(PLAIN, OTHER)];
  await web.full();
  web.release();
  for (const each of accepted) assert.equal((await each).status, 204);
});
