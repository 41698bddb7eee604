import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import tls from 'node:tls';
import { noOpenssl, selfSigned } from '../../../harness/http/certificates.ts';
import { Receiver } from '../../../harness/http/receiver.ts';
import { reasonOf, sender } from '../../../harness/http/sender.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';

const allow = ['127.0.0.1'];
const skip = noOpenssl;

/** Starts an https receiver at 127.0.0.1. */
async function receiverWith(t: TestContext, identity: { key: string; cert: string }): Promise<Receiver> {
  const receiver = await Receiver.start(identity);
  t.after(() => receiver.stop());
  return receiver;
}

test('a certificate of an unknown authority is refused, whatever Node’s options say', {
  skip,
}, async (t) => {
  const receiver = await receiverWith(t, selfSigned());
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  t.after(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED);
  assert.match(reasonOf(await sender(t, { allow })(receiver.callback)), /^DEPTH_ZERO_SELF_SIGNED_CERT/);
  assert.deepEqual(receiver.deliveries, []);
});

test('ROUTEMASTER_SSL_VERIFY=no accepts any certificate', { skip }, async (t) => {
  const receiver = await receiverWith(t, selfSigned());
  assert.deepEqual(await sender(t, { allow, sslVerify: false })(receiver.callback), {
    accepted: true,
    status: 204,
  });
});

test('ROUTEMASTER_CALLBACK_CA is trusted beside Node’s own authorities', { skip }, async (t) => {
  const [ours, known] = [selfSigned(), selfSigned()];
  const usual = tls.getCACertificates('default');
  tls.setDefaultCACertificates([...usual, known.cert]);
  t.after(() => tls.setDefaultCACertificates(usual));
  const send = sender(t, { allow, callbackCa: ours.cert });
  for (const identity of [ours, known]) {
    const receiver = await receiverWith(t, identity);
    assert.deepEqual(await send(receiver.callback), { accepted: true, status: 204 });
  }
  const stranger = await receiverWith(t, selfSigned());
  assert.match(reasonOf(await send(stranger.callback)), /^DEPTH_ZERO_SELF_SIGNED_CERT/);
});

test('a certificate for another host is refused', { skip }, async (t) => {
  const identity = selfSigned('DNS:other.example');
  const receiver = await receiverWith(t, identity);
  const send = sender(t, { allow, callbackCa: identity.cert });
  assert.match(reasonOf(await send(receiver.callback)), /^ERR_TLS_CERT_ALTNAME_INVALID/);
  assert.deepEqual(receiver.deliveries, []);
});

test('TLS below 1.2 is refused, whatever Node’s options say', { skip }, async (t) => {
  const { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS } = tls;
  tls.DEFAULT_MIN_VERSION = 'TLSv1';
  tls.DEFAULT_CIPHERS = 'DEFAULT:@SECLEVEL=0';
  t.after(() => Object.assign(tls, { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS }));
  const identity = selfSigned();
  let secured = 0;
  const old = tls.createServer({ ...identity, maxVersion: 'TLSv1.1' }, (socket) => {
    secured++;
    socket.on('error', () => {}).end('HTTP/1.1 204 No Content\r\n\r\n');
  });
  t.after(() => old.close());
  const port = await listenLocally(old);
  const reason = reasonOf(await sender(t, { allow, sslVerify: false })(`https://127.0.0.1:${port}/`));
  assert.match(reason, /alert protocol version/);
  assert.equal(secured, 0);
});

test('a server that does not speak TLS receives nothing of the batch', async (t) => {
  const heard: Buffer[] = [];
  const plain = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      heard.push(chunk);
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    });
  });
  t.after(() => plain.close());
  const port = await listenLocally(plain);
  reasonOf(await sender(t, { allow })(`https://127.0.0.1:${port}/`));
  assert.ok(heard.length > 0);
  assert.doesNotMatch(Buffer.concat(heard).toString('latin1'), /POST|authorization|topic/i);
});
