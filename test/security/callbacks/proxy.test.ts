import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { beforeEach, describe, test } from 'node:test';
import { aroundTests } from '../../../harness/around_tests.ts';
import { noOpenssl, selfSigned } from '../../../harness/http/certificates.ts';
import { Receiver } from '../../../harness/http/receiver.ts';
import { reasonOf, type SenderOptions, sender } from '../../../harness/http/sender.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { ConnectProxy } from './connect_proxy.ts';

const proxy = new ConnectProxy();
aroundTests(
  () => proxy.start(),
  () => proxy.stop(),
);
beforeEach(() => {
  proxy.targets.length = 0;
  proxy.authorizations.length = 0;
});

const never = () => Promise.reject(new Error('the proxy resolves names'));
const through = (more: SenderOptions = {}): SenderOptions => ({
  egressProxy: proxy.url,
  resolve: never,
  ...more,
});

describe('through a proxy', () => {
  test('names are resolved by the proxy, TLS ends at the callback, and only the proxy gets its credentials', {
    skip: noOpenssl,
  }, async (t) => {
    const identity = selfSigned('DNS:hooks.example');
    const receiver = await Receiver.start(identity);
    t.after(() => receiver.stop());
    const { port } = new URL(receiver.callback);

    const send = sender(t, through({ callbackCa: identity.cert }));
    assert.deepEqual(await send(`https://hooks.example:${port}/`), { accepted: true, status: 204 });
    assert.deepEqual(proxy.targets, [`hooks.example:${port}`]);
    assert.deepEqual(proxy.authorizations, [`Basic ${btoa('bus:hunter2')}`]);
    assert.equal(receiver.deliveries[0]?.headers.authorization, `Basic ${btoa('me:x')}`);
    assert.equal(receiver.deliveries[0]?.headers['proxy-authorization'], undefined);

    assert.match(reasonOf(await send(`https://other.example:${port}/`)), /^ERR_TLS_CERT_ALTNAME_INVALID/);
    assert.match(
      reasonOf(await sender(t, through())(`https://hooks.example:${port}/`)),
      /^DEPTH_ZERO_SELF_SIGNED_CERT/,
      'unless somebody vouches for it',
    );
    assert.equal(receiver.deliveries.length, 1);
  });

  test('plain http to allowed addresses uses CONNECT as well', async (t) => {
    const receiver = await Receiver.start();
    t.after(() => receiver.stop());
    const send = sender(t, through({ allow: ['127.0.0.1'] }));
    assert.deepEqual(await send(receiver.callback), { accepted: true, status: 204 });
    assert.deepEqual(proxy.targets, [new URL(receiver.callback).host]);
  });

  for (const url of [
    'https://127.0.0.1/',
    'https://169.254.169.254/latest',
    'https://[::ffff:10.0.0.1]/',
    'https://2130706433/',
    'http://127.0.0.1/',
    'http://hooks.example/',
  ]) {
    test(`the proxy is never asked to connect to ${url}`, async (t) => {
      const reason = reasonOf(await sender(t, through({ allow: ['10.9.9.9'] }))(url));
      assert.match(reason, /^refused to connect: /);
      assert.deepEqual(proxy.targets, []);
    });
  }

  test('a host to which the proxy does not get through fails at the connect timeout', async (t) => {
    const silent = createServer();
    const asked = once(silent, 'connect');
    t.after(() => silent.close());
    const egressProxy = `http://127.0.0.1:${await listenLocally(silent)}`;
    const limits = { connectTimeoutMs: 200, deliveryTimeoutMs: 10_000 };
    const outcome = await sender(t, { egressProxy, ...limits })('https://hooks.example/');
    assert.equal(
      reasonOf(outcome),
      'UND_ERR_CONNECT_TIMEOUT: the proxy has made no connection to the host within 200 ms',
    );
    const [, socket] = (await asked) as [unknown, Socket];
    await once(socket.resume(), 'end'); // the connection to the proxy is closed too
    socket.end();
  });

  test('a refusal by the proxy fails the delivery without showing its credentials', async (t) => {
    const reason = reasonOf(await sender(t, through())('https://forbidden.example/'));
    assert.match(reason, /Proxy response \(403\)/);
    const gone = reasonOf(
      await sender(t, { egressProxy: 'http://bus:hunter2@127.0.0.1:1', resolve: never })(
        'https://hooks.example/',
      ),
    );
    assert.match(gone, /ECONNREFUSED/);
    assert.doesNotMatch(reason + gone, /hunter2/);
  });
});
