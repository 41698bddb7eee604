import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { assertRefused, assertWorks, type Refusal } from '../../harness/http/refusal.ts';
import { SETTING_NAMES } from '../../src/subscribing/subscription_settings.ts';

const CALLBACK = 'https://sub.example.com/events';

// Every refusal here is checked to store nothing, and to be followed by a publish that is accepted.
const api = new Api({
  env: { ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.1 ::1/128', ROUTEMASTER_LANE_LIMIT_MAX: '40' },
  prepare: async (self) => {
    await self.token('sub');
    await assertWorks(self);
  },
});

const subscribe = (body: string) => api.call('POST', '/subscription', { as: 'sub', body });
const wanted = (members: object) =>
  JSON.stringify({ topics: ['widgets'], callback: CALLBACK, uuid: 'u', ...members });

async function settings() {
  const { text } = await api.call('GET', '/subscriptions', { as: 'sub' });
  const [report] = JSON.parse(text);
  return Object.fromEntries(['topics', 'callback', ...SETTING_NAMES].map((name) => [name, report[name]]));
}

describe('a callback is refused', () => {
  const callbacks: [callback: unknown, detail: RegExp][] = [
    [undefined, /callback: must be a URL/],
    [null, /callback: must be a URL/],
    [7, /callback: must be a URL/],
    ['', /not a URL; write https:\/\/host\/path/],
    ['sub.example.com', /not a URL/],
    ['/events', /not a URL/],
    ['https://', /not a URL/],
    ['https:// sub.example.com', /not a URL/],
    ['https://sub.example.com/a b', /not a URL/],
    ['https://sub.example.com/\n', /not a URL/],
    [' https://sub.example.com', /not a URL/],
    ['https://sub.example.com:99999', /not a URL/],
    [`https://sub.example.com/${'a'.repeat(3000)}`, /longer than 2048 characters/],
    ['https://a%3ab@sub.example.com', /user name cannot be a uuid/],
    ['https://a%FFb@sub.example.com', /user name cannot be a uuid/],
    ['https://a@127.0.0.2', /not public/],
    ['https://a@sub.example.com@127.0.0.2', /not public/],
    ['https://a@127.0.0.2\\@sub.example.com', /not public/],
    ['ftp://sub.example.com', /must begin with https:\/\/ or http:\/\/, not ftp:/],
    ['localhost:9292/events', /must begin with https:\/\/ or http:\/\/, not localhost:/],
    ['javascript:alert(1)', /must begin with https:\/\/ or http:\/\/, not javascript:/],
    ['file:///etc/passwd', /must begin with https:\/\/ or http:\/\/, not file:/],
    ['http://192.0.2.1/events', /plain http is only for addresses in ROUTEMASTER_CALLBACK_ALLOW/],
    ['http://127.0.0.2/events', /plain http is only for/],
    ['http://[2001:db8::1]/events', /plain http is only for/],
    ['https://127.0.0.2/events', /not public \(loopback\).*ROUTEMASTER_CALLBACK_ALLOW/],
    ['https://10.0.0.1/events', /not public \(private\).*ROUTEMASTER_CALLBACK_ALLOW/],
    ['https://169.254.169.254/latest/meta-data', /not public \(link-local\)/],
    ['https://[::ffff:10.0.0.1]/events', /not public \(private\)/],
  ];
  for (const [callback, detail] of callbacks) {
    test(String(callback).slice(0, 60) || 'empty', () =>
      assertRefused(api, () => subscribe(wanted({ callback })), {
        code: 'bad_callback',
        field: 'callback',
        detail,
      }),
    );
  }
});

test('https goes to public addresses; http to the allowed ones, however they are written', async () => {
  const callbacks = [
    'https://sub.example.com/a?b=c&d=%20',
    'HTTPS://SUB.example.com',
    'https://[2606:4700::1111]:8443/',
    'https://bücher.example/é',
    'http://127.0.0.1:8080/events',
    'http://[::1]/events',
    'http://[::ffff:127.0.0.1]/events',
    'http://2130706433/',
  ];
  for (const callback of callbacks) {
    assert.equal((await subscribe(wanted({ callback }))).status, 204, callback);
    assert.equal((await settings()).callback, callback);
  }
});

describe('a subscription is refused', () => {
  const tooMany = Array.from({ length: 1001 }, (_, i) => `t${i}`);
  const members: [title: string, members: object, detail: RegExp][] = [
    ['without topics', { topics: undefined }, /must be an array/],
    ['to one topic that is no array', { topics: 'widgets' }, /array/],
    ['to 1,001 topics', { topics: tooMany }, /at most 1000 names/],
    ['with a uuid that has a colon', { uuid: 'a:b' }, /no colon and no control/],
    ['with a uuid over two lines', { uuid: 'a\r\nX: y' }, /no colon and no control/],
    ['with NUL in its uuid', { uuid: '\0' }, /no control/],
    ['with a uuid of 256 characters', { uuid: 'x'.repeat(256) }, /at most 255/],
    ['with a uuid that is no string', { uuid: 7 }, /must be a string/],
    ['with a timeout below 0', { timeout: -1 }, /at least 0/],
    ['with a timeout over an hour', { timeout: 3_600_001 }, /at most 3600000/],
    ['with half a millisecond', { timeout: 0.5 }, /a whole number from 0 to 3600000/],
    ['with a timeout in words', { timeout: '5' }, /a whole number/],
    ['with a max of 0', { max: 0 }, /at least 1/],
    ['with a max of 10,001', { max: 10_001 }, /at most 10000/],
    ['with a max that is no number', { max: true }, /a whole number/],
    ['with an order in words', { ordered: 'yes' }, /must be true or false/],
    ['with no delivery in flight', { max_in_flight: 0 }, /at least 1/],
    ['with more deliveries in flight than ROUTEMASTER_LANE_LIMIT_MAX', { max_in_flight: 41 }, /at most 40/],
    ['with half an attempt', { max_attempts: 1.5 }, /a whole number from 1 to 1000000/],
    ['with no attempt', { max_attempts: 0 }, /at least 1/],
    ['with over a million attempts', { max_attempts: 1_000_001 }, /at most 1000000/],
    ['with an age below a second', { max_age: 999 }, /at least 1000/],
    ['with an age over a year', { max_age: 31_536_000_001 }, /at most 31536000000/],
    ['with an age in words', { max_age: '1 day' }, /a whole number/],
    ['with too few bytes', { max_bytes: 1023 }, /at least 1024/],
    ['with too many bytes', { max_bytes: 16_777_217 }, /at most 16777216/],
    [
      'with an unknown field',
      { colour: 'teal' },
      /use topics, callback, uuid, timeout, max, max_bytes, ordered/,
    ],
    ['with max under the name that reports give it', { max_events: 5 }, /"max_events"; in a .* this is max$/],
  ];
  for (const [title, each, detail] of members) {
    const [field = ''] = Object.keys(each);
    test(title, () =>
      assertRefused(api, () => subscribe(wanted(each)), { code: 'bad_subscription', field, detail }),
    );
  }

  const bodies: [title: string, body: string, refusal: Refusal][] = [
    [
      'to a topic of 65 characters',
      wanted({ topics: ['a', 'a'.repeat(65)] }),
      { code: 'bad_topic', field: 'topics.1', detail: /1 to 64/ },
    ],
    [
      'to a topic that would be another key',
      wanted({ topics: ['a}:b'] }),
      { code: 'bad_topic', field: 'topics.0', detail: /a-z, 0-9 and _/ },
    ],
    [
      'to a number',
      wanted({ topics: [7] }),
      { code: 'bad_topic', field: 'topics.0', detail: /a topic name has 1 to 64 characters/ },
    ],
    [
      'with half a character',
      wanted({ uuid: '\ud83d' }),
      { code: 'bad_body', detail: /has \\ud83d, half of a character/ },
    ],
    ['that is no JSON', '{', { code: 'bad_body', detail: /not JSON/ }],
    ['that is empty', '', { code: 'bad_body', detail: /empty; send JSON/ }],
    [
      'that is no object',
      '[]',
      { code: 'bad_subscription', detail: /send an object with topics, callback and uuid/ },
    ],
    ['that is null', 'null', { code: 'bad_subscription', detail: /send an object/ }],
    [
      'with __proto__',
      wanted({}).replace('"uuid"', '"__proto__"'),
      { code: 'bad_subscription', field: '__proto__', detail: /unknown field/ },
    ],
    [
      'with a misspelt name of a field that is needed',
      wanted({}).replace('"callback"', '"Callback"'),
      {
        code: 'bad_subscription',
        field: 'Callback',
        detail: /unknown field "Callback"; use topics, callback/,
      },
    ],
    [
      'with a number beyond all',
      wanted({ max: 7 }).replace('7', '1e400'),
      { code: 'bad_body', detail: /too large/ },
    ],
    [
      'with a timeout of 64 bits',
      wanted({ timeout: 7 }).replace('7', '9'.repeat(19)),
      { code: 'bad_subscription', field: 'timeout', detail: /a whole number/ },
    ],
    [
      'with 50,000 topics',
      wanted({ topics: [7] }).replace('7', `7${',7'.repeat(50_000)}`),
      { code: 'body_too_large', detail: /too many values/ },
    ],
    [
      'with 15,000 topics',
      wanted({ topics: [7] }).replace('7', `7${',7'.repeat(15_000)}`),
      { code: 'bad_subscription', field: 'topics', detail: /at most 1000/ },
    ],
    [
      'with 20,000 levels',
      wanted({ topics: [7] }).replace('7', '['.repeat(2e4) + ']'.repeat(2e4)),
      { code: 'bad_topic', field: 'topics.0', detail: /a topic name/ },
    ],
    [
      'with 60,000 levels',
      wanted({ topics: [7] }).replace('7', '['.repeat(6e4) + ']'.repeat(6e4)),
      { code: 'body_too_large', detail: /too many values/ },
    ],
    [
      'that is longer than 128 KiB',
      wanted({ topics: ['a'] }) + ' '.repeat(128 * 1024),
      { code: 'body_too_large', detail: /larger than 131072 bytes; send less/ },
    ],
  ];
  for (const [title, body, refusal] of bodies) {
    test(title, () => assertRefused(api, () => subscribe(body), refusal));
  }
});

test('credentials in a callback are taken out of it: the user is the uuid if none is given', async () => {
  const url = 'https://order%2Dservice:x@sub.example.com/events';
  const callback = 'https://sub.example.com/events';
  for (const none of [undefined, null, '']) {
    assert.equal((await subscribe(wanted({ callback: url, uuid: none }))).status, 204);
    assert.deepEqual(await shown(), ['order-service', callback]);
  }
  assert.equal((await subscribe(wanted({ callback: url, uuid: 'given' }))).status, 204);
  assert.deepEqual(await shown(), ['given', callback]);
  assert.equal(
    (await subscribe(wanted({ callback: 'https://:x@sub.example.com/events', uuid: null }))).status,
    204,
  );
  assert.deepEqual(await shown(), ['', callback]);
});

async function shown() {
  const [report] = JSON.parse((await api.call('GET', '/subscriptions', { as: 'sub' })).text);
  return [report.uuid, report.callback];
}

test('values at the bounds are accepted, and null keeps the present value', async () => {
  const most = {
    timeout: 3_600_000,
    max: 10_000,
    max_bytes: 16_777_216,
    ordered: true,
    max_in_flight: 40,
    max_attempts: 1_000_000,
    max_age: 31_536_000_000,
    uuid: 'ü'.repeat(255),
    topics: Array.from({ length: 1000 }, (_, i) => `t${i}`),
  };
  assert.equal((await subscribe(wanted(most))).status, 204);
  const { topics, ...rest } = await settings();
  const { topics: _, uuid, max: max_events, ...same } = most;
  assert.deepEqual([topics.length, rest], [1000, { ...same, max_events, callback: CALLBACK }]);
  const least = {
    timeout: 0,
    max_bytes: 1024,
    ordered: false,
    max_in_flight: 1,
    max_attempts: 1,
    max_age: 1000,
  };
  assert.equal((await subscribe(wanted({ ...least, max: 1, topics: [] }))).status, 204);
  const nothing = Object.fromEntries([...Object.keys(least), 'max', 'uuid'].map((field) => [field, null]));
  assert.equal((await subscribe(wanted({ ...nothing, topics: [] }))).status, 204);
  assert.equal((await subscribe(wanted({ topics: [] }))).status, 204);
  assert.deepEqual(await settings(), { ...least, max_events: 1, callback: CALLBACK, topics: [] });
});
