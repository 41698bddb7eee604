import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { aroundTests } from '../../../harness/around_tests.ts';
import { CallbackPolicy } from '../../../src/subscribing/callback_policy.ts';
import { DnsServer } from './dns_server.ts';

let dns: DnsServer;
const policy = (...allow: string[]) => new CallbackPolicy(allow, { resolve: dns.resolve });

aroundTests(
  async () => {
    dns = await DnsServer.start();
  },
  () => dns.stop(),
);
beforeEach(() => void dns.asked.splice(0));

describe('a subscription checks the addresses of a name', () => {
  for (const [what, address] of Object.entries({
    loopback: '127.0.0.1',
    private: '10.1.2.3',
    metadata: '169.254.169.254',
    'loopback of IPv6': '::1',
    'private within IPv6': '64:ff9b::a00:1',
  })) {
    test(`a name of ${what} is refused`, async () => {
      dns.host('hooks.example', [address]);
      const refusal = await policy().refusal('https://hooks.example/');
      assert.match(refusal ?? 'accepted', /not public.*ROUTEMASTER_CALLBACK_ALLOW/);
      assert.ok(!refusal?.includes(address), 'nobody learns of our network');
    });
  }

  test('a name with public IPv4 and IPv6 addresses is accepted', async () => {
    dns.host('hooks.example', ['93.184.216.34', '2606:4700::1111']);
    assert.equal(await policy().refusal('https://hooks.example/'), undefined);
    assert.deepEqual(await policy().addresses('https:', 'hooks.example'), [
      '93.184.216.34',
      '2606:4700::1111',
    ]);
  });

  test('a name is accepted if one of its addresses is', async () => {
    dns.host('hooks.example', ['10.0.0.1', '93.184.216.34', '::1', '127.0.0.1', '2606:4700::1111']);
    assert.equal(await policy().refusal('https://hooks.example/'), undefined);
    assert.deepEqual(await policy().addresses('https:', 'hooks.example'), [
      '93.184.216.34',
      '2606:4700::1111',
    ]);
    assert.deepEqual(await policy('127.0.0.1').addresses('http:', 'hooks.example'), ['127.0.0.1']);
  });

  test('a name that cannot be resolved now is accepted, as each connection is checked', async () => {
    assert.equal(await policy().refusal('https://gone.example/'), undefined);
    assert.equal(await policy('10.0.0.0/8').refusal('http://gone.example/'), undefined);
    await assert.rejects(policy().addresses('https:', 'gone.example'), { code: 'ENOTFOUND' });
  });

  test('a name whose DNS server does not answer is accepted after two seconds', async () => {
    const silent = new CallbackPolicy([], { resolve: () => new Promise(() => {}) });
    assert.equal(await silent.refusal('https://hooks.example/'), undefined);
  });

  test('no name is looked up for plain http if no address is allowed', async () => {
    assert.match(
      (await policy().refusal('http://hooks.example/')) ?? '',
      /must begin with https:\/\/;.* lists none$/,
    );
    assert.deepEqual(dns.asked, []);
  });

  test('no name is looked up if a proxy does that; plain http through it needs a literal address', async () => {
    const proxied = new CallbackPolicy(['10.0.0.0/8'], {
      egressProxy: 'http://proxy:3128',
      resolve: dns.resolve,
    });
    dns.host('hooks.example', ['10.0.0.1']);
    assert.equal(await proxied.refusal('https://hooks.example/'), undefined);
    assert.equal(await proxied.refusal('http://10.0.0.1/'), undefined);
    assert.match((await proxied.refusal('https://127.0.0.1/')) ?? '', /not public/);
    assert.match((await proxied.refusal('http://hooks.example/')) ?? '', /through the proxy/);
    assert.deepEqual(dns.asked, []);
  });
});
