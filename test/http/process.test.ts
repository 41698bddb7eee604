import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import { Api, basic, send } from '../../harness/http/api.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { root } from '../../harness/processes/command.ts';
import { WebProcess } from '../../harness/processes/web_process.ts';
import { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { until } from '../../harness/until.ts';

const WRONG_SETTING = 78;
const MAY_PASS = 75;

describe('a web process refuses to start, and says what to change,', { concurrency: true }, () => {
  test('if settings are wrong, and names each of them', async (t) => {
    const web = WebProcess.during(t, {
      ROUTEMASTER_ROOT_KEY: '',
      PORT: 'http',
      WEB_CONCURRENCY: '0',
      ROUTEMASTER_EGRESS_PROXY: 'proxy:3128',
    });
    assert.equal(await web.exitCode, WRONG_SETTING, web.output);
    for (const message of [
      /ROUTEMASTER_ROOT_KEY must be set/,
      / {2}PORT is "http": must be a whole number from 0 to 65535/,
      / {2}WEB_CONCURRENCY is "0": must be a whole number from 1 to 256/,
      / {2}ROUTEMASTER_EGRESS_PROXY must be a URL such as http:/,
    ])
      assert.match(web.output, message);
    assert.doesNotMatch(web.output, /\n\s+at /);
  });

  test('if a port for callbacks is none', async (t) => {
    const web = WebProcess.during(t, { ROUTEMASTER_CALLBACK_PORTS: 'https' });
    assert.equal(await web.exitCode, WRONG_SETTING, web.output);
    assert.match(web.output, /ROUTEMASTER_CALLBACK_PORTS has https, which is neither a port/);
  });

  test('if its PORT is taken, with one process or several, with a status after which systemd tries again', async (t) => {
    const first = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: 'redis://127.0.0.1:1' });
    const port = String(await first.port());
    for (const processes of ['1', '2']) {
      const second = WebProcess.during(t, { PORT: port, WEB_CONCURRENCY: processes });
      assert.equal(await second.exitCode, MAY_PASS, second.output);
      assert.match(second.output, new RegExp(`Cannot listen: port ${port} is taken; set PORT to another`));
    }
  });

  test('if HOST is no address of this machine, with the same status', async (t) => {
    for (const host of ['192.0.2.1', 'nowhere.invalid']) {
      const web = WebProcess.during(t, { HOST: host, ROUTEMASTER_REDIS_URL: 'redis://127.0.0.1:1' });
      assert.equal(await web.exitCode, MAY_PASS, web.output);
      const message = `Cannot listen: HOST is ${host}, which is no address of this machine; set it to one, or to 0.0.0.0 for all.\n`;
      assert.ok(web.output.includes(message), web.output);
    }
  });
});

describe('FORCE_SSL', () => {
  const api = new Api({ env: { FORCE_SSL: 'yes' }, headers: { 'x-forwarded-proto': 'https' } });

  test('redirects plain http to https with the same path, query and method', async () => {
    const headers = { host: 'bus.example.com', 'x-forwarded-proto': 'http' };
    for (const [method, path] of [
      ['GET', '/pulse'],
      ['GET', '/topics?a=b%20c&d=e'],
      ['POST', '/topics/widgets'],
      ['DELETE', '/topics/widgets'],
    ] as const) {
      const { status, headers: answered } = await api.call(method, path, { headers });
      assert.deepEqual([status, answered.location], [308, `https://bus.example.com${path}`]);
    }
  });

  test('redirects a target in absolute form to its path', async () => {
    const headers = { host: 'bus.example.com', 'x-forwarded-proto': 'http' };
    for (const [target, path] of [
      ['http://bus.example.com/topics?a=b', '/topics?a=b'],
      ['HTTP://bus.example.com:80', '/'],
      ['http://other.example.com?a', '/?a'],
    ] as const) {
      const { status, headers: answered } = await api.call('GET', target, { headers });
      assert.deepEqual([status, answered.location], [308, `https://bus.example.com${path}`]);
    }
  });

  test('leaves out the port of plain http', async () => {
    for (const [host, named] of [
      ['127.0.0.1:3000', '127.0.0.1'],
      ['[::1]:3000', '[::1]'],
    ] as const) {
      const answer = await api.call('GET', '/pulse', { headers: { host, 'x-forwarded-proto': 'http' } });
      assert.equal(answer.headers.location, `https://${named}/pulse`);
    }
  });

  test('accepts requests that reached the router by https, whatever header the caller forged', async () => {
    for (const proto of ['https', 'http,https', 'http, https']) {
      const answer = await api.call('GET', '/topics', {
        as: 'root',
        headers: { 'x-forwarded-proto': proto },
      });
      assert.equal(answer.status, 200);
      assert.equal(answer.headers['strict-transport-security'], 'max-age=31536000');
    }
  });

  test('redirects a caller of plain http who forges the header, also where it publishes', async () => {
    const event = '{"type":"noop","url":"https://app.example.com/1"}';
    // The header as a router leaves it that appends its value to the client's.
    const headers = { 'x-forwarded-proto': 'https, http', host: 'bus.example.com' };
    for (const [method, path, body] of [
      ['GET', '/topics', ''],
      ['POST', '/topics/widgets', event],
    ] as const) {
      const answer = await api.call(method, path, { as: 'shop', headers, ...(body && { body }) });
      assert.deepEqual([answer.status, answer.headers.location], [308, `https://bus.example.com${path}`]);
    }
    assert.equal((await api.call('POST', '/topics/widgets', { as: 'shop', body: event })).status, 204);
  });

  test('answers health checks over plain http, since they do not pass the router', async () => {
    const answer = await api.call('GET', '/health', { headers: { 'x-forwarded-proto': 'http' } });
    assert.equal(answer.status, 200);
  });

  test('does not redirect an HTTP/1.0 request without Host, since the target is unknown', async () => {
    const { status, text } = await api.raw('GET /pulse HTTP/1.0\r\n\r\n');
    assert.equal(status, 400);
    assert.equal(JSON.parse(text).code, 'bad_header');
  });
});

describe('with a Redis', () => {
  let redis: PrivateRedis;
  aroundTests(
    async () => {
      redis = await PrivateRedis.start();
    },
    () => redis.stop(),
  );

  for (const [processes, signal] of [
    ['1', 'SIGTERM'],
    ['1', 'SIGINT'],
    ['2', 'SIGTERM'],
  ] as const) {
    test(`${signal} in mid-request: the request is answered, and ${processes} process(es) exit with 0`, async (t) => {
      const web = WebProcess.during(t, {
        ROUTEMASTER_REDIS_URL: redis.url,
        WEB_CONCURRENCY: processes,
        ROUTEMASTER_CLIENTS: 'pub',
      });
      const port = await web.port();
      const authorization = basic('pub', '');
      await until(async () => (await send(port, 'GET', '/pulse', { authorization })).status === 204);
      const idle = await open(port, '');
      const event = '{"type":"noop","url":"https://app.example.com/1"}';
      const head = `POST /topics/widgets HTTP/1.1\r\nHost: bus\r\nAuthorization: ${authorization}\r\n`;
      const socket = await open(
        port,
        `${head}Expect: 100-continue\r\nContent-Length: ${event.length}\r\n\r\n`,
      );
      const answer = read(socket);
      await until(() => answer.text.includes('100 Continue'), { what: 'the server has the request' });
      web.signal(signal);
      await until(() => web.output.includes('"msg":"stopping"'));
      await until(async () => !(await accepts(port)), { what: 'no new connections' });
      socket.write(event);
      await answer.ended;
      assert.match(answer.text, /HTTP\/1.1 204 No Content/);
      assert.equal(await web.exitCode, 0, web.output);
      assert.match(web.output, /"msg":"stopped"/);
      idle.destroy();
    });
  }

  test('it answers /metrics also for the first time after its files have gone', async (t) => {
    const tree = mkdtempSync(join(tmpdir(), 'tree-'));
    t.after(() => rmSync(tree, { recursive: true }));
    for (const name of ['src', 'lua', 'package.json'])
      cpSync(join(root, name), join(tree, name), { recursive: true, verbatimSymlinks: true });
    symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
    const web = WebProcess.during(t, { ROUTEMASTER_REDIS_URL: redis.url }, tree);
    const port = await web.port();
    rmSync(join(tree, 'src'), { recursive: true });
    const answer = await send(port, 'GET', '/metrics', { authorization: basic(ROOT_KEY, '') });
    assert.equal(answer.status, 200, web.output);
  });
});

async function open(port: number, bytes: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

/** Collects the text that comes, until the other end closes. */
function read(socket: Socket): { text: string; ended: Promise<unknown> } {
  const answer = { text: '', ended: once(socket, 'end') };
  socket.setEncoding('utf8').on('data', (text) => {
    answer.text += text;
  });
  return answer;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((answer) => {
    const socket = connect(port, '127.0.0.1')
      .once('error', () => answer(false))
      .once('connect', () => {
        socket.destroy();
        answer(true);
      });
  });
}
