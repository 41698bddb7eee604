import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Addresses, isRefused } from '../../../src/subscribing/addresses.ts';
import { CallbackPolicy } from '../../../src/subscribing/callback_policy.ts';

const closed = new CallbackPolicy([]);

/** Addresses that no callback may reach, by the reason. The ends of a range show that no bound is off by one. */
const REFUSED: Record<string, string[]> = {
  'this network': ['0.0.0.0', '0.255.255.255', '::'],
  loopback: ['127.0.0.1', '127.255.255.254', '::1'],
  private: ['10.0.0.0', '10.255.255.255', '172.16.0.0', '172.31.255.255', '192.168.0.0', '192.168.255.255'],
  'unique local': ['fc00::', 'fd00::1', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'link-local': ['169.254.0.1', '169.254.255.255', 'fe80::1', 'febf::1'],
  'site-local': ['fec0::1', 'feff::1'],
  'metadata of clouds': [
    '169.254.169.254',
    '168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
    'fd00:ec2::254',
  ],
  'carrier-grade NAT': ['100.64.0.0', '100.127.255.255'],
  multicast: ['224.0.0.1', '239.255.255.255', 'ff02::1', 'ff0e::1'],
  broadcast: ['255.255.255.255'],
  reserved: [
    '240.0.0.1',
    '255.255.255.254',
    '192.0.0.1',
    '192.88.99.1',
    '4000::1',
    '8000::1',
    '100::1',
    '5f00::1',
  ],
  documentation: ['192.0.2.1', '198.51.100.1', '203.0.113.255', '2001:db8::1', '3fff::1', '3fff:fff::1'],
  benchmarking: ['198.18.0.1', '198.19.255.255', '2001:2::1'],
  'protocol assignments': [
    '2001:1::1',
    '2001:10::1',
    '2001:20::1',
    '2001:1ff:ffff::1',
    '192.31.196.1',
    '192.52.193.1',
  ],
  'NAT64 of a network of its own': ['64:ff9b:1::1', '64:ff9b:1::808:808'],
  'IPv4-translated': ['::ffff:0:8.8.8.8', '::ffff:0:10.0.0.1'],
  'IPv4-mapped': ['::ffff:10.0.0.1', '::ffff:a00:1', '::ffff:127.0.0.1', '0:0:0:0:0:ffff:a9fe:a9fe'],
  'IPv4-compatible': ['::10.0.0.1', '::7f00:1', '::169.254.169.254'],
  NAT64: ['64:ff9b::10.0.0.1', '64:ff9b::7f00:1', '64:ff9b::a9fe:a9fe', '0064:ff9b:0::192.168.0.1'],
  '6to4': ['2002:a00:1::', '2002:7f00:1::1', '2002:a9fe:a9fe::1', '2002:c0a8:101:1::abcd'],
  // The address holds the server as it is, and the client with all bits inverted: ~10.0.0.1, ~127.0.0.1.
  Teredo: ['2001:0:a00:1::f7f7:f7f7', '2001:0:808:808::f5ff:fffe', '2001:0:808:808::80ff:fffe'],
  ISATAP: [
    '2606:4700::5efe:10.0.0.1',
    '2606:4700::200:5efe:127.0.0.1',
    '2606:4700::5efe:a9fe:a9fe',
    'fd00::5efe:8.8.8.8',
    'fe80::5efe:8.8.8.8',
  ],
  'a zone': ['fe80::1%eth0', 'fe80::1%1', '::1%lo', 'fe80::1%br-lan', 'fe80::1%eth0.100'],
  'no address': ['', 'localhost', '10.0.0', '010.0.0.1', '1.2.3.4.5', '8.8.8.8 ', ':::'],
};

const PUBLIC = [
  ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '172.15.255.255', '172.32.0.0', '192.167.255.255'],
  ...['100.63.255.255', '100.128.0.0', '169.253.255.255', '169.255.0.0', '128.0.0.1', '223.255.255.255'],
  ...['192.0.1.1', '198.17.255.255', '198.20.0.0', '168.63.129.15', '168.63.129.17'],
  ...['2606:4700::1111', '2a00:1450:4001::200e', '2001:4860:4860::8888', '2001:200::1', '3ffe::1'],
  ...[
    '::ffff:8.8.8.8',
    '::8.8.8.8',
    '::808:808',
    '64:ff9b::8.8.8.8',
    '2002:808:808::1',
    '2606:4700::5efe:8.8.8.8',
    '2606:4700::100:5efe:10.0.0.1',
    '2001:0:808:808::f7f7:f7f7',
  ],
];

describe('a callback at an address that is not public', () => {
  const addresses = new Addresses([]);
  for (const [why, list] of Object.entries(REFUSED)) {
    test(`is refused: ${why}`, () => {
      for (const each of list) assert.ok(isRefused(addresses.classOf(each)), `${each} is refused`);
    });
  }

  test('is refused over https and http, even if the operator allows another address', async () => {
    const policy = new CallbackPolicy(['10.9.9.9'], { resolve: async (host) => [host.slice(1)] });
    for (const each of Object.values(REFUSED).flat())
      for (const protocol of ['https:', 'http:'])
        await assert.rejects(policy.addresses(protocol, `x${each}`), { name: 'CallbackRefused' }, each);
  });
});

test('a public address is accepted over https, but never over http', async () => {
  const policy = new CallbackPolicy(['10.9.9.9'], { resolve: async (host) => [host.slice(1)] });
  for (const each of PUBLIC) {
    assert.deepEqual(await policy.addresses('https:', `x${each}`), [each]);
    await assert.rejects(policy.addresses('http:', `x${each}`), /plain http is only for/, each);
  }
});

describe('an entry of ROUTEMASTER_CALLBACK_ALLOW', () => {
  const allowed: [allow: string, addresses: string[], others: string[]][] = [
    [
      '10.1.0.0/16',
      ['10.1.0.0', '10.1.255.255', '::ffff:10.1.2.3', '64:ff9b::a01:203'],
      ['10.0.255.255', '10.2.0.0'],
    ],
    ['127.0.0.1', ['127.0.0.1', '::ffff:127.0.0.1'], ['127.0.0.2', '::1', '::']],
    ['::1', ['::1', '0:0:0:0:0:0:0:1'], ['127.0.0.1', '::2', '::']],
    ['fe80::1%br-lan', ['fe80::1', 'fe80::1%br-lan'], ['fe80::2', '::1']],
    ['fd00::/8', ['fd12::5', 'fdff::'], ['fc00::1', 'fe80::1']],
    ['169.254.169.254', ['169.254.169.254'], ['169.254.169.253', 'fe80::1']],
    ['64:ff9b::/96', ['64:ff9b::10.0.0.1'], ['10.0.0.1', '::ffff:10.0.0.1']],
    // A Teredo address is allowed only if both its server and its client are.
    ['10.0.0.0/8', ['2001:0:a00:1::f5ff:fffe'], ['2001:0:7f00:1::f5ff:fffe', '2001:0:a00:1::80ff:fffe']],
  ];
  for (const [allow, addresses, others] of allowed) {
    test(`allows exactly its own addresses: ${allow}`, () => {
      const rules = new Addresses([allow]);
      for (const each of addresses) assert.equal(rules.classOf(each), 'allowed', each);
      for (const each of others) assert.ok(isRefused(rules.classOf(each)), each);
    });
  }
});

describe('a literal address is recognized in every spelling', () => {
  const spellings: Record<string, string[]> = {
    '127.0.0.1': [
      '127.0.0.1',
      '127.1',
      '127.0.1',
      '2130706433',
      '0x7f000001',
      '0x7f.1',
      '0177.0.0.1',
      '017700000001',
    ],
    'with signs that look like digits and dots': ['１２７.０.０.１', '127。0。0。1', '①②⑦.0.0.1'],
    'with a dot at the end': ['127.0.0.1.', '2130706433.'],
    '10.0.0.5': ['10.5', '012.0.0.5', '0xa000005', '167772165'],
    '169.254.169.254': ['2852039166', '0xa9fea9fe', '0251.0376.0251.0376', '169.16689662'],
    '0.0.0.0': ['0', '0x0', '0.0.0.0', '00000'],
    IPv6: [
      '[::1]',
      '[0:0::0:1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::FFFF:7F00:1]',
      '[::127.0.0.1]',
    ],
    'IPv4 within IPv6': [
      '[64:ff9b::127.0.0.1]',
      '[2002:7f00:1::]',
      '[2001:0:7f00:1::]',
      '[fec0::1]',
      '[fe80::1]',
    ],
    'with percent signs': ['%31%32%37.0.0.1', '127%2e0%2e0%2e1'],
  };
  for (const [what, hosts] of Object.entries(spellings)) {
    test(what, async () => {
      for (const host of hosts)
        for (const end of ['/', ':8443/', '?x', '/a@b'])
          assert.match(
            (await closed.refusal(`https://${host}${end}`)) ?? 'accepted',
            /not public/,
            host + end,
          );
    });
  }

  test('an address with a zone is not a URL', async () => {
    for (const host of ['[fe80::1%25eth0]', '[fe80::1%eth0]', '[::1%25lo]'])
      assert.match((await closed.refusal(`https://${host}/`)) ?? 'accepted', /not a URL/, host);
  });
});
