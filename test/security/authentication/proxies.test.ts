import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { before, describe, mock, test } from 'node:test';
import { MAX_FAILURES } from '../../../src/authentication/failed_logins.ts';
import { clock } from '../../../src/clock.ts';
import { readConfig } from '../../../src/config.ts';
import { Proxies, sourceOf } from '../../../src/routing/proxies.ts';
import { basic, GuardedServer } from '../../authentication/guarded_server.ts';

const request = (forwardedFor?: string, proto?: string) =>
  ({
    headers: { 'x-forwarded-for': forwardedFor, 'x-forwarded-proto': proto },
    socket: { remoteAddress: '10.0.0.1' },
  }) as unknown as IncomingMessage;

describe('the address of a caller', () => {
  const address = (count: number, header?: string) => new Proxies(count).addressOf(request(header));

  test('is that of the connection where no router stands in front, whatever it says', () => {
    for (const header of [undefined, '', '192.0.2.1', '192.0.2.1, 192.0.2.2'])
      assert.equal(address(0, header), '10.0.0.1');
  });

  test('is what the outermost router appended, not what the caller wrote', () => {
    assert.equal(address(1, '192.0.2.1'), '192.0.2.1');
    assert.equal(address(1, 'forged, 127.0.0.1, 192.0.2.1'), '192.0.2.1');
    assert.equal(address(1, 'forged,2001:db8::1'), '2001:db8::1');
    assert.equal(address(2, 'forged, 192.0.2.1, 192.0.2.2'), '192.0.2.1');
    assert.equal(address(2, '192.0.2.1'), '192.0.2.1');
  });

  test('may have a port, which is left out', () => {
    assert.equal(address(1, '192.0.2.1:5678'), '192.0.2.1');
    assert.equal(address(1, 'forged, [2001:db8::1]:443'), '2001:db8::1');
    assert.equal(address(1, '[2001:db8::1]'), '2001:db8::1');
    assert.equal(address(1, '2001:db8::1:443'), '2001:db8::1:443');
    for (const header of ['192.0.2.1:', '192.0.2.1:a', '[192.0.2.1', '[x]:1', ':1'])
      assert.equal(address(1, header), '10.0.0.1', header);
  });

  test('is that of the connection where the router says none', () => {
    for (const header of [undefined, '', 'unknown', '192.0.2.1, ', 'x'.repeat(16_000)])
      assert.equal(address(1, header), '10.0.0.1');
  });

  test('stands for the network that one caller has', () => {
    assert.equal(sourceOf('192.0.2.1'), '192.0.2.1');
    assert.equal(sourceOf('::ffff:192.0.2.1'), '192.0.2.1');
    const same = [
      '2001:db8::1',
      '2001:DB8:0:0:1:2:3:4',
      '2001:0db8:0000::ffff',
      '2001:db8::1:2:3:4',
      '2001:db8::',
    ];
    for (const each of same) assert.equal(sourceOf(each), '2001:db8:0:0', each);
    assert.equal(sourceOf('::1'), '0:0:0:0');
    assert.equal(sourceOf('1::'), '1:0:0:0');
    for (const zone of ['eth0', 'eth0.100', 'br-lan'])
      assert.equal(sourceOf(`fe80::1%${zone}`), 'fe80:0:0:0', zone);
    assert.equal(sourceOf('1:2:3:4:5:6:7:8'), '1:2:3:4');
    assert.equal(sourceOf('64:ff9b::192.0.2.1'), '64:ff9b:0:0');
  });
});

describe('the origin of a request', () => {
  const originOf = (host: string | undefined, proto?: string) =>
    new Proxies(1).originOf({ headers: { host, 'x-forwarded-proto': proto } } as unknown as IncomingMessage);

  test('is where the caller found the bus', () => {
    for (const host of ['bus.test', 'bus.test:8080', '127.0.0.1:3000', '[::1]:3000', 'a', 'xn--bs-hka.test'])
      assert.equal(originOf(host, 'https'), `https://${host}`);
    assert.equal(originOf('BUS.test'), 'http://bus.test');
  });

  test('is unknown if the host is no host', () => {
    const long = `${'a'.repeat(260)}.test`;
    for (const host of [
      undefined,
      '',
      '-a',
      'a b',
      'a:b',
      'a:123456',
      'u@a',
      'a/b',
      '[::1',
      '$(x)',
      '`x`',
      '"',
      long,
    ])
      assert.equal(originOf(host), undefined, host);
  });
});

describe('whether a request came by https', () => {
  const https = (count: number, header?: string) =>
    new Proxies(count).cameByHttps(request(undefined, header));

  test('is said by the router alone', () => {
    assert.equal(https(1, 'https'), true);
    assert.equal(https(1, 'http, https'), true);
    assert.equal(https(1, 'https, http'), false);
    assert.equal(https(1, undefined), false);
    assert.equal(https(0, 'https'), false);
    assert.equal(https(2, 'https, http, https'), false);
    assert.equal(https(2, 'http, https, https'), true);
    assert.equal(https(2, 'https'), true);
  });
});

describe('how many routers there are', () => {
  const read = (env: Record<string, string>) =>
    readConfig({ ROUTEMASTER_ROOT_KEY: '0f'.repeat(24), ...env }).trustedProxies;

  test('is one where FORCE_SSL wants one, none otherwise, or what is set', () => {
    assert.equal(read({}), 0);
    assert.equal(read({ FORCE_SSL: 'yes' }), 1);
    assert.equal(read({ NODE_ENV: 'production' }), 1);
    assert.equal(read({ NODE_ENV: 'production', FORCE_SSL: 'no' }), 0);
    assert.equal(read({ FORCE_SSL: 'yes', ROUTEMASTER_TRUSTED_PROXIES: '2' }), 2);
    assert.equal(read({ ROUTEMASTER_TRUSTED_PROXIES: '1' }), 1);
  });

  test('cannot be none with FORCE_SSL, as anybody could say https', () => {
    const env = { FORCE_SSL: 'yes', ROUTEMASTER_TRUSTED_PROXIES: '0' };
    assert.throws(
      () => read(env),
      /FORCE_SSL is on and ROUTEMASTER_TRUSTED_PROXIES is 0.*or FORCE_SSL to no/,
    );
  });
});

describe('a caller who forges X-Forwarded-For', () => {
  // The clock stands still, so that the minute of the limit does not end during the test.
  before(() => void mock.method(clock, 'wallMs', () => Date.UTC(2026, 0, 1)));
  const behindRouter = new GuardedServer({ proxies: 1 });
  const direct = new GuardedServer();

  test('is counted as who it is', async () => {
    for (const [server, appended] of [
      [behindRouter, ', 192.0.2.7'],
      [direct, ''],
    ] as const) {
      const call = (index: number) =>
        server.call('/client', [
          ['X-Forwarded-For', `198.51.100.${index % 250}${appended}`],
          ['Authorization', basic('nobody', 'x')],
        ]);
      for (let i = 0; i < MAX_FAILURES; i += 20)
        await Promise.all(Array.from({ length: 20 }, (_, index) => call(i + index)));
      assert.equal((await call(200)).status, 429);
    }
  });
});
