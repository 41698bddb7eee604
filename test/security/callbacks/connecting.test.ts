import assert from 'node:assert/strict';
import { beforeEach, describe, type TestContext, test } from 'node:test';
import { aroundTests } from '../../../harness/around_tests.ts';
import { answer, Receiver } from '../../../harness/http/receiver.ts';
import { reasonOf, sender } from '../../../harness/http/sender.ts';
import { CallbackPolicy } from '../../../src/subscribing/callback_policy.ts';
import { Canary } from './canary.ts';
import { DnsServer } from './dns_server.ts';

const NOT_PUBLIC =
  /^refused to connect: its host is at an address that is not public \((.+)\).*CALLBACK_ALLOW$/;

let dns: DnsServer;
let canary: Canary;

aroundTests(
  async () => {
    dns = await DnsServer.start();
    canary = await Canary.start();
  },
  () => {
    dns.stop();
    canary.stop();
  },
);
beforeEach(() => void dns.asked.splice(0));

async function receiverFor(t: TestContext): Promise<{ receiver: Receiver; port: number }> {
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  return { receiver, port: Number(new URL(receiver.callback).port) };
}

describe('every connection is checked', () => {
  for (const [scheme, allow] of [
    ['https', []],
    ['http', ['10.9.9.9']],
  ] as const) {
    test(`a name that changes after the subscription is refused: ${scheme}`, async (t) => {
      dns.host('rebind.example', [scheme === 'https' ? '93.184.216.34' : '10.9.9.9']);
      const callback = `${scheme}://rebind.example:${canary.port}/`;
      const policy = new CallbackPolicy(allow, { resolve: dns.resolve });
      assert.equal(await policy.refusal(callback), undefined);

      dns.host('rebind.example', ['127.0.0.1']);
      const reason = reasonOf(await sender(t, { allow: [...allow], resolve: dns.resolve })(callback));
      assert.match(reason, scheme === 'https' ? NOT_PUBLIC : /^refused to connect: it must begin with https/);
      assert.equal(canary.connections, 0);
    });
  }

  test('a name cannot change between the check and the connection, as it is resolved once', async (t) => {
    const { receiver, port } = await receiverFor(t);
    dns.host('rebind.example', ['127.0.0.1'], ['127.0.0.2']);
    const send = sender(t, { allow: ['127.0.0.1'], resolve: dns.resolve });
    assert.deepEqual(await send(`http://rebind.example:${port}/`), { accepted: true, status: 204 });
    assert.equal(receiver.deliveries.length, 1);
    assert.deepEqual(dns.asked, ['rebind.example', 'rebind.example'], 'for A and AAAA, once');
  });

  test('of several addresses, only the allowed ones are tried', {
    skip: process.platform !== 'linux',
  }, async (t) => {
    const { receiver, port } = await receiverFor(t);
    const beside = await Canary.start('127.0.0.2', port);
    t.after(() => beside.stop());
    dns.host('both.example', ['127.0.0.2', '127.0.0.1', '::1']);
    const send = sender(t, { allow: ['127.0.0.1'], resolve: dns.resolve });
    assert.deepEqual(await send(`http://both.example:${port}/`), { accepted: true, status: 204 });
    assert.deepEqual([receiver.deliveries.length, beside.connections], [1, 0]);
  });

  test('if an allowed address does not answer, the next one is tried', {
    skip: process.platform !== 'linux',
  }, async (t) => {
    const { receiver, port } = await receiverFor(t);
    dns.host('both.example', ['127.0.0.3', '127.0.0.1']);
    const send = sender(t, { allow: ['127.0.0.0/8'], resolve: dns.resolve });
    assert.deepEqual(await send(`http://both.example:${port}/`), { accepted: true, status: 204 });
    assert.equal(receiver.deliveries.length, 1);
  });

  for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '[::ffff:127.0.0.1]', '127.0.0.1.', 'localhost']) {
    for (const scheme of ['https', 'http']) {
      test(`a literal address that is not allowed, or not any more, is refused: ${scheme}://${host}`, async (t) => {
        const reason = reasonOf(
          await sender(t, { allow: ['10.9.9.9'] })(`${scheme}://${host}:${canary.port}/`),
        );
        assert.match(reason, /^refused to connect: /);
        assert.equal(canary.connections, 0);
      });
    }
  }

  test('a port that is not listed any more is refused', async (t) => {
    const send = sender(t, { allow: ['127.0.0.1'], callbackPorts: ['443'] });
    const reason = reasonOf(await send(`http://127.0.0.1:${canary.port}/`));
    assert.match(
      reason,
      /^refused to connect: its port is \d+, which is not one of ROUTEMASTER_CALLBACK_PORTS \(.*\); use one of these/,
    );
    assert.equal(canary.connections, 0);
  });

  test('a name that does not exist fails with the resolver’s error', async (t) => {
    const send = sender(t, { resolve: dns.resolve });
    assert.match(reasonOf(await send('https://gone.example/')), /^ENOTFOUND: /);
  });
});

describe('an answer cannot redirect a delivery', () => {
  for (const status of [301, 302, 303, 307, 308]) {
    test(`a redirect is not followed: ${status}`, async (t) => {
      const { receiver } = await receiverFor(t);
      receiver.answers(answer.status(status, { location: `http://127.0.0.1:${canary.port}/` }));
      const outcome = await sender(t, { allow: ['127.0.0.1'] })(receiver.callback);
      assert.equal(reasonOf(outcome), `HTTP ${status}`);
      assert.deepEqual([receiver.deliveries.length, canary.connections], [1, 0]);
    });
  }

  test('alt-svc, refresh and link are ignored', async (t) => {
    const { receiver } = await receiverFor(t);
    const elsewhere = `http://127.0.0.1:${canary.port}/`;
    const headers = {
      'alt-svc': `h2="127.0.0.1:${canary.port}"`,
      refresh: `0; url=${elsewhere}`,
      link: `<${elsewhere}>; rel=preconnect`,
    };
    receiver.usual = answer.status(503, headers);
    const send = sender(t, { allow: ['127.0.0.1'] });
    for (let i = 0; i < 2; i++) assert.equal(reasonOf(await send(receiver.callback)), 'HTTP 503');
    assert.deepEqual([receiver.deliveries.length, canary.connections], [2, 0]);
  });
});

describe('credentials in a callback of a Ruby Routemaster', () => {
  test('are neither sent nor shown in a failure', async (t) => {
    const { receiver, port } = await receiverFor(t);
    const send = sender(t, { allow: ['127.0.0.1'] });
    await send(`http://user:hunter2@127.0.0.1:${port}/`);
    assert.equal(receiver.deliveries[0]?.headers.authorization, `Basic ${btoa('me:x')}`);
    for (const callback of [`http://user:hunter2@10.0.0.1/`, 'https://user:hunter2@nowhere.invalid/'])
      assert.doesNotMatch(reasonOf(await send(callback)), /hunter2/);
  });

  test('are not in the error about a callback that is not a URL', async (t) => {
    const send = async () => sender(t)('https://user:hunter2@host:port/');
    await assert.rejects(
      send,
      (error) =>
        error instanceof TypeError && !/hunter2/.test(JSON.stringify({ ...error, text: String(error) })),
    );
  });
});
