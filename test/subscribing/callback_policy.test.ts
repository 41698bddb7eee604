import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BootError } from '../../src/errors.ts';
import { CallbackPolicy } from '../../src/subscribing/callback_policy.ts';

const closed = new CallbackPolicy([]);
const open = new CallbackPolicy(['127.0.0.0/8', '10.1.2.3', '::1', 'fd00::/8']);

describe('an https callback is accepted', () => {
  for (const url of [
    'https://example.com',
    'https://example.com:8443/events?source=bus&x=1',
    'HTTPS://EXAMPLE.COM/',
    'https://93.184.216.34/',
    'https://[2606:4700::1111]/',
    'https://no-such-host.invalid/',
    'https://münchen.example/ü',
  ]) {
    test(url, async () => assert.equal(await closed.refusal(url), undefined));
  }
});

describe('a callback is refused, with advice', () => {
  const refused: Record<string, RegExp> = {
    '': /not a URL/,
    'example.com/events': /not a URL/,
    'https://': /not a URL/,
    'https://exa mple.com/': /not a URL/,
    'https://example.com/\n': /not a URL/,
    'https://example.com/a\u0000b': /not a URL/,
    'https://user:secret@example.com/': /leave credentials out/,
    'https://user@example.com/': /leave credentials out/,
    'ftp://example.com/': /https:\/\/, not ftp:/,
    'javascript:alert(1)': /https:\/\/, not javascript:/,
    'file:///etc/passwd': /https:\/\/, not file:/,
    'http://example.com/': /must begin with https:\/\/;.* lists none$/,
  };
  for (const [url, advice] of Object.entries(refused)) {
    test(JSON.stringify(url), async () => assert.match((await closed.refusal(url)) ?? 'accepted', advice));
  }

  test('a URL longer than 2,048 characters', async () => {
    const url = `https://example.com/${'x'.repeat(2048)}`;
    assert.match((await closed.refusal(url)) ?? '', /longer than 2048/);
    assert.equal(await closed.refusal(url.slice(0, 2048)), undefined);
  });
});

describe('plain http', () => {
  test('is accepted for addresses that the operator allows', async () => {
    for (const host of [
      '127.0.0.1',
      '127.255.0.9:8080',
      '10.1.2.3',
      '[::1]',
      '[fd12::5]',
      '[::ffff:127.0.0.1]',
    ]) {
      assert.equal(await open.refusal(`http://${host}/x`), undefined, host);
    }
  });

  test('is accepted for names with an allowed address', async () => {
    assert.equal(await open.refusal('http://localhost:3000/'), undefined);
  });

  test('is refused for everything else', async () => {
    for (const host of ['10.1.2.4', '128.0.0.1', '[fe80::1]', '[::ffff:10.9.9.9]']) {
      assert.match((await open.refusal(`http://${host}/`)) ?? '', /ROUTEMASTER_CALLBACK_ALLOW/, host);
    }
  });

  test('is decided by the address if the host is a number that URLs read as one', async () => {
    assert.equal(await open.refusal('http://2130706433/'), undefined);
    assert.match((await open.refusal('http://0x0a010204/')) ?? '', /ROUTEMASTER_CALLBACK_ALLOW/);
  });
});

describe('ROUTEMASTER_CALLBACK_ALLOW takes addresses and CIDRs, but not', () => {
  for (const entry of [
    'localhost',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/x',
    '10.0.0/8',
    'fd00::/129',
    '/8',
    '1.2.3.4/8/8',
  ]) {
    test(entry, () => {
      assert.throws(
        () => new CallbackPolicy([entry]),
        (error: Error) => error instanceof BootError && error.message.includes(entry),
      );
    });
  }

  test('a CIDR of 0 bits allows all addresses', async () => {
    assert.equal(await new CallbackPolicy(['0.0.0.0/0']).refusal('http://8.8.8.8/'), undefined);
  });
});

test('plain http to the machine of the bus is refused with what to set for it', async () => {
  const resolve = async () => ['::1'];
  const other = new CallbackPolicy(['10.0.0.1'], { resolve });
  for (const [policy, url, add] of [
    [closed, 'http://localhost:8000/', '127.0.0.1'],
    [closed, 'http://[::1]:8000/', '::1'],
    [other, 'http://localhost:8000/', '::1'],
    [other, 'http://127.0.0.2/', '127.0.0.2'],
  ] as const) {
    const advice = `; to receive on the machine of the bus, as in development, add ${add} to it`;
    assert.match(
      (await policy.refusal(url)) ?? '',
      /plain http is only for .*ROUTEMASTER_CALLBACK_ALLOW/,
      url,
    );
    assert.ok((await policy.refusal(url))?.endsWith(advice), url);
  }
  assert.doesNotMatch((await closed.refusal('http://hooks.example/')) ?? '', /machine of the bus/);
});

describe('ports', () => {
  const some = new CallbackPolicy(['127.0.0.1'], { callbackPorts: ['443', '8000-8999'] });

  test('are all allowed unless the operator lists some', async () => {
    assert.equal(await closed.refusal('https://93.184.216.34:22/'), undefined);
  });

  for (const url of ['https://93.184.216.34/', 'https://93.184.216.34:8000/', 'http://127.0.0.1:8999/']) {
    test(`${url} has an allowed port`, async () => assert.equal(await some.refusal(url), undefined));
  }

  for (const url of ['https://93.184.216.34:22/', 'https://hooks.example:9000/', 'http://127.0.0.1/']) {
    test(`${url} has a port that is not allowed`, async () =>
      assert.match(
        (await some.refusal(url)) ?? '',
        /its port is \d+, which is not one of ROUTEMASTER_CALLBACK_PORTS/,
      ));
  }

  test('are those of https if the callback is http without a port, and only that is wrong', async () => {
    const advice = /\(443, 8000-8999\); use https, whose port is 443$/;
    for (const url of ['http://hooks.example/events', 'http://hooks.example:80/'])
      assert.match((await some.refusal(url)) ?? '', advice, url);
    for (const url of ['http://hooks.example:81/', 'https://hooks.example:80/', 'http://10.9.9.9/'])
      assert.match(
        (await some.refusal(url)) ?? '',
        /\(443, 8000-8999\); use one of these, or have the operator add it$/,
        url,
      );
    const other = new CallbackPolicy(['127.0.0.1'], { callbackPorts: ['8000'] });
    assert.match((await other.refusal('http://hooks.example/')) ?? '', /\(8000\); use one of these, or/);
  });

  test('of the machine of the bus are not those of https', async () => {
    const advice = /its port is 80, .*; use one of these, or have the operator add it$/;
    for (const url of ['http://localhost/', 'http://127.0.0.1/', 'http://[::1]/'])
      assert.match((await some.refusal(url)) ?? '', advice, url);
  });

  for (const entry of ['https', '0', '65536', '9-8', '1-', '-1', '1-2-3']) {
    test(`may not be ${entry}`, () => {
      assert.throws(
        () => new CallbackPolicy([], { callbackPorts: [entry] }),
        (error: Error) => error instanceof BootError && error.message.includes(`PORTS has ${entry},`),
      );
    });
  }
});
