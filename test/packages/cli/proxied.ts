import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect, type Server } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { noOpenssl, selfSigned } from '../../../harness/http/certificates.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { bus } from './shared_bus.ts';
import { Terminal } from './terminal.ts';

const terminal = new Terminal();

async function listening(t: TestContext, server: Server): Promise<number> {
  t.after(() => server.close());
  return listenLocally(server);
}

/** Serves the bus by https. Its name, bus.example.com, is known to the proxy alone. */
async function secureBus(t: TestContext): Promise<number> {
  const tls = selfSigned('DNS:bus.example.com');
  writeFileSync(join(terminal.folder, 'ca.pem'), tls.cert);
  const server = createTlsServer(tls, async ({ url, headers }, response) => {
    const { authorization = '' } = headers;
    const answered = await fetch(bus.url + url, { headers: { authorization } });
    const type = answered.headers.get('content-type') ?? 'text/plain';
    response.writeHead(answered.status, { 'content-type': type, connection: 'close' });
    response.end(await answered.text());
  });
  return listening(t, server);
}

/** A proxy that connects all that it is asked for to one port of this machine, or refuses all. */
async function proxyTo(t: TestContext, port?: number) {
  const asked: string[] = [];
  const server = createServer((_, response) => void response.writeHead(500).end());
  server.on('connect', ({ url = '' }, socket) => {
    asked.push(url);
    socket.on('error', () => {});
    if (port === undefined) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    const target = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      target.pipe(socket).pipe(target);
    });
    target.on('error', () => socket.destroy());
  });
  return { asked, address: `127.0.0.1:${await listening(t, server)}` };
}

test('every command reaches the bus through the proxy of HTTPS_PROXY', { skip: noOpenssl }, async (t) => {
  const port = await secureBus(t);
  const host = `bus.example.com:${port}`;
  const proxy = await proxyTo(t, port);
  const env = { HTTPS_PROXY: proxy.address, NODE_EXTRA_CA_CERTS: join(terminal.folder, 'ca.pem') };
  // For a client, doctor reports about this client alone, and not about the subscribers of other tests.
  const { token, secret } = await bus.client('proxied');
  for (const command of ['topic list', 'top --once', 'doctor']) {
    proxy.asked.length = 0;
    const { stdout, stderr, status } = await terminal.rtmAlone(
      `${command} -b ${host} -t ${token}:${secret}`,
      {
        env,
      },
    );
    if (command === 'doctor') {
      // The only finding is that the certificate of the test ends soon.
      assert.match(stdout, /^BAD +tls +TLSv1\.\d, a trusted certificate for 1 day more\n +Renew/);
      assert.match(stderr, /^not_well: 1 of 6 checks found something$/m);
    } else assert.equal(status, 0, `${command}: ${stderr}`);
    assert.deepEqual([...new Set(proxy.asked)], [host], command);
  }
});

test('nothing that NO_PROXY names goes through the proxy, and nothing to this machine', async (t) => {
  const proxy = await proxyTo(t);
  const env = { HTTPS_PROXY: `http://${proxy.address}`, HTTP_PROXY: `http://${proxy.address}` };
  assert.equal((await terminal.rtmAlone(`topic list -b ${bus.url} -t ${ROOT_KEY}`, { env })).status, 0);
  await terminal.rtmAlone('doctor -b https://localhost:9 -t x', { env });
  const excepted = { ...env, NO_PROXY: '.example.invalid' };
  await terminal.rtmAlone('doctor -b bus.example.invalid -t x', { env: excepted });
  assert.deepEqual(proxy.asked, []);
});

test('a proxy that refuses is named as the reason, and so is a wrong HTTPS_PROXY', async (t) => {
  const { address } = await proxyTo(t);
  const { stdout } = await terminal.rtmAlone('doctor -b bus.example.com -t x', {
    env: { HTTPS_PROXY: address },
  });
  assert.match(
    stdout,
    /^BAD +tls +no TLS connection: .*tunnel.* 403 Forbidden\n.*HTTPS_PROXY.*\nBAD +connection .*403.*\n/,
  );
  const command = 'topic list -b bus.example.com -t x';
  const { stderr, status } = await terminal.rtmAlone(command, { env: { HTTPS_PROXY: 'http://' } });
  assert.match(stderr, /^bad_proxy: HTTPS_PROXY is not the URL of a proxy, such as /);
  assert.equal(status, 2);
  const ofOtherKind = { env: { HTTPS_PROXY: 'socks5h://proxy:1080' } };
  for (const each of ['--version', `topic list -b ${bus.url} -t ${ROOT_KEY}`])
    assert.equal((await terminal.rtmAlone(each, ofOtherKind)).status, 0, each);
});
