import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Api, type CallOptions } from '../../harness/http/api.ts';
import { assertRefused, assertWorks, type Refusal } from '../../harness/http/refusal.ts';

const URL = 'https://app.example.com/1';
const NDJSON = { 'content-type': 'application/x-ndjson' };
const TOPIC_RULE = /^a topic name has 1 to 64 characters of a-z, 0-9 and _$/;

// Every refusal here is checked to store nothing, and to be followed by a publish that is accepted.
const api = new Api({
  env: { ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.0/8, ::1', ROUTEMASTER_MAX_EVENT_DATA: '1000' },
  prepare: async (self) => {
    await self.call('POST', '/subscription', { as: 'sub', body: SUBSCRIPTION });
    await assertWorks(self);
  },
});
const SUBSCRIPTION = `{"topics":["widgets"],"callback":"${URL}","timeout":3600000,"max":10000}`;

const publish = (body: CallOptions['body'], headers = {}) =>
  api.call('POST', '/topics/widgets', { as: 'pub', headers, ...(body !== undefined && { body }) });
const event = (members: string) => `{"type":"noop","url":"${URL}"${members}}`;
const data = (json: string) => event(`,"data":${json}`);
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

/** Resolves with the event accepted last, as its subscriber will get it. */
async function lastStored(): Promise<string> {
  const { redis, keys } = api.store;
  const [bid = ''] = await redis.zrange(keys.batches_queued(await api.token('sub')), '-1', '-1');
  return (await redis.lindex(keys.batch(bid), -1)) ?? '';
}

describe('a body is refused', () => {
  const bodies: [title: string, body: string | Buffer | undefined, refusal: Refusal][] = [
    ['that is missing', undefined, { code: 'bad_body', detail: /is empty; send JSON/ }],
    ['of spaces', ' \n', { code: 'bad_body', detail: /is empty/ }],
    ['that is no JSON', '{"type":noop}', { code: 'bad_body', detail: /not JSON: Unexpected token/ }],
    [
      'of an event a line, without saying so',
      `${event('')} \n ${event('')}`,
      {
        code: 'bad_body',
        detail: /not JSON: .*a line each are sent with Content-Type: application\/x-ndjson/,
      },
    ],
    [
      'of an event a line, without saying so, whose ends of lines were lost on the way',
      event('') + event(''),
      { code: 'bad_body', detail: /not JSON: .*; send several events as an array, or .* by --data-binary$/ },
    ],
    [
      'that is an array without a comma',
      `[${event('')}${event('')}]`,
      { code: 'bad_body', detail: /not JSON: Expected ',' or '\]'[^;]*$/ },
    ],
    ['that is cut short', '{"type":"no', { code: 'bad_body', detail: /not JSON: Unterminated string/ }],
    ['with more behind it', `${event('')}x`, { code: 'bad_body', detail: /not JSON: Unexpected non-white/ }],
    ['that is not UTF-8', Buffer.from(event(',"data":"é"'), 'latin1'), { code: 'bad_body', detail: /UTF-8/ }],
    ['in UTF-16', Buffer.from(event(''), 'utf16le'), { code: 'bad_body', detail: /not JSON/ }],
    ['that is no object', '"noop"', { code: 'bad_event', detail: /an event is an object such as/ }],
    ['without events', '[]', { code: 'bad_event', detail: /no events/ }],
    [
      'with 10,001 events',
      `[${`${event('')},`.repeat(10_000)}${event('')}]`,
      { code: 'body_too_large', detail: /more than 10000.*send 10000/ },
    ],
    [
      'with an array in the array',
      `[[${event('')}]]`,
      { code: 'bad_event', index: 0, detail: /event 0: .*object/ },
    ],
    [
      'with half a character',
      data('"\\ud83d"'),
      { code: 'bad_body', detail: /has \\ud83d, half of a character/ },
    ],
    ['with the other half', data('"\\\\\\uDE00"'), { code: 'bad_body', detail: /has \\uDE00, half/ }],
    ['with halves in disorder', data('"\\ude00\\ud83d"'), { code: 'bad_body', detail: /has \\ude00, half/ }],
    [
      'with a number beyond all',
      data('1e400'),
      { code: 'bad_body', detail: /number 1e400, too large.*string/ },
    ],
    [
      'with a longer integer than 64 bits',
      data('-9223372036854775809'),
      { code: 'bad_body', detail: /too large/ },
    ],
    [
      'with such a number deep down',
      `1234567890123456789${nested(9)}`,
      { code: 'bad_body', detail: /not JSON/ },
    ],
  ];
  for (const [title, body, refusal] of bodies) {
    test(title, () => assertRefused(api, () => publish(body), refusal));
  }

  test('with a long number 100,000 levels deep', async () => {
    const body = data(nested(100_000).replace('[]', '[9007199254740993]'));
    await assertRefused(api, () => publish(body), {
      code: 'bad_event',
      field: 'data',
      detail: /deeper than 64/,
    });
  });

  test('that is over 5 MiB, by its Content-Length or by the bytes that arrive', async () => {
    const refusal: Refusal = {
      code: 'body_too_large',
      detail: /larger than 5242880 bytes; send fewer events/,
    };
    const tooLong = Buffer.alloc(5 * 1024 * 1024 + 1, ' ');
    await assertRefused(api, () => publish(tooLong), refusal);
    await assertRefused(api, () => publish(tooLong, { 'transfer-encoding': 'chunked' }), refusal);
    // Much more than the buffers of sockets hold, so the client is still sending when the answer comes.
    const endless = Buffer.alloc(50 * 1024 * 1024, ' ');
    await assertRefused(api, () => publish(endless), refusal);
    await assertRefused(api, () => publish(endless, { 'transfer-encoding': 'chunked' }), refusal);
  });

  test('that is compressed', async () => {
    for (const encoding of ['gzip', 'br', 'gzip, identity']) {
      const refusal: Refusal = { code: 'unsupported_encoding', detail: /without Content-Encoding: / };
      await assertRefused(api, () => publish(event(''), { 'content-encoding': encoding }), refusal);
    }
  });
});

describe('an event is refused', () => {
  const longUrl = `https://a.example/${'a'.repeat(1007)}`;
  const events: [event: string, field: string | undefined, detail: RegExp][] = [
    ['{}', 'type', /type must be one of create, update, delete, noop$/],
    ['{"type":"Create"}', 'type', /type must be one of create, update, delete, noop, not "Create"$/],
    ['{"type":["noop"]}', 'type', /type must be one of .*, not an array$/],
    ['{"type":"constructor"}', 'type', /type must be one of/],
    ['{"type":"noop"}', 'url', /url must be a string/],
    ['{"type":"noop","url":{}}', 'url', /url must be a string, not an object$/],
    ['{"type":"noop","url":"https://"}', 'url', /must be an https/],
    ['{"type":"noop","url":" https://a.example/"}', 'url', /https:\/\/ URL, not " https:\/\/a.example\/"$/],
    [
      `{"type":"noop","url":"http://a.example/${'a'.repeat(500)}"}`,
      'url',
      /, not "http:\/\/a.example\/a{83}…"$/,
    ],
    ['{"type":"noop","url":"https://a.example/\\u0000"}', 'url', /must be an https/],
    ['{"type":"noop","url":"https://a.example/\\r\\nX: y"}', 'url', /must be an https/],
    [`{"type":"noop","url":"${longUrl}"}`, 'url', /at most 1024 characters/],
    [
      event(',"timestamp":9007199254740992'),
      'timestamp',
      /whole number of milliseconds .*, not 9007199254740992$/,
    ],
    [event(',"timestamp":-1.5'), 'timestamp', /whole number of milliseconds since 1970, not -1.5$/],
    [
      event(',"timestamp":1000000000'),
      'timestamp',
      /timestamp 1000000000 looks like seconds; send milliseconds/,
    ],
    [event(',"timestamp":9999999999'), 'timestamp', /looks like seconds; send milliseconds/],
    [event(',"Data":1'), 'Data', /unknown field "Data"; use id, type, url, timestamp, data/],
    [event(',"__proto__":{"data":1}'), '__proto__', /unknown field/],
    [data(nested(65)), 'data', /deeper than 64 levels/],
    [data(nested(100_000)), 'data', /deeper than 64 levels/],
    [data(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`), 'data', /deeper than 64 levels/],
    [
      data(JSON.stringify('x'.repeat(999))),
      'data',
      /1001 bytes as JSON.*ROUTEMASTER_MAX_EVENT_DATA allows 1000/,
    ],
    [
      data(JSON.stringify('é'.repeat(500))),
      'data',
      /1002 bytes as JSON.*ROUTEMASTER_MAX_EVENT_DATA allows 1000/,
    ],
    [event(',"id":""'), 'id', /1 to 64 visible ASCII characters/],
    [event(`,"id":"${'x'.repeat(65)}"`), 'id', /1 to 64 visible ASCII characters/],
    [event(',"id":"a b"'), 'id', /1 to 64 visible ASCII characters/],
    [event(',"id":"a\\"b"'), 'id', /1 to 64 visible ASCII characters/],
    [event(',"id":"a\\\\b"'), 'id', /1 to 64 visible ASCII characters/],
    [event(',"id":"\\u00e9"'), 'id', /1 to 64 visible ASCII characters/],
    [event(',"id":"a\\n"'), 'id', /1 to 64 visible ASCII characters/],
    [event(',"id":7'), 'id', /1 to 64 visible ASCII characters/],
  ];
  for (const [json, field, detail] of events) {
    const refusal: Refusal = { code: 'bad_event', detail, ...(field !== undefined && { field }) };
    test(json.length > 90 ? `${json.slice(0, 70)}… (${json.length})` : json, async () => {
      await assertRefused(api, () => publish(json), refusal);
      await assertRefused(api, () => publish(`[${event('')},${json}]`), { ...refusal, index: 1 });
    });
  }
});

describe('NDJSON is refused', () => {
  const lines: [title: string, body: string, refusal: Refusal][] = [
    [
      'with a bad event',
      `${event('')}\n{"type":"noop"}\n`,
      { code: 'bad_event', index: 1, field: 'url', detail: /event 1: url/ },
    ],
    [
      'with a line that is no JSON',
      `${event('')}\n\n{"type":`,
      { code: 'bad_body', index: 1, detail: /^line 3 \(event 1, counted from 0\) is not JSON/ },
    ],
    [
      'with an event over two lines',
      event('').replace(',', ',\n'),
      {
        code: 'bad_body',
        index: 0,
        detail: /^line 1 \(event 0, counted from 0\) is not JSON: (?!.*\(line 1)/,
      },
    ],
    [
      'with lines whose ends were lost on the way',
      event('') + event(''),
      { code: 'bad_body', index: 0, detail: /several: send line ends along, with curl by --data-binary/ },
    ],
    [
      'with an array on a line',
      `[${event('')}]`,
      { code: 'bad_event', index: 0, detail: /event 0: an event is an object/ },
    ],
    ['without events', '\n\r\n', { code: 'bad_event', detail: /no events/ }],
    [
      'with 10,001 events',
      `${event('')}\n`.repeat(10_001),
      { code: 'body_too_large', detail: /more than 10000/ },
    ],
  ];
  for (const [title, body, refusal] of lines) {
    test(title, () => assertRefused(api, () => publish(body, NDJSON), refusal));
  }

  test('but empty lines and any end of line are accepted', async () => {
    const body = `\n${event('')}\r\n\r\n${event('')}\n \n`;
    assert.equal((await publish(body, NDJSON)).status, 204);
  });
});

describe('data is delivered as it was sent', () => {
  const values = [
    '{"__proto__":{"a":1},"constructor":{"prototype":null},"toJSON":1,"":0}',
    '[9007199254740993,18446744073709551615,-9223372036854775808,1473080555409]',
    '[0,-1,1.5,1e-7,255,256,65536,4294967296,-2147483649,9007199254740991]',
    '"\u{1f600} \\u0000 \\\\ud800 \\n é \u2028"',
    nested(64),
    'false',
    '""',
    '[]',
  ];
  for (const value of values) {
    test(value, async () => {
      assert.equal((await publish(data(value))).status, 204);
      const stored = await lastStored();
      assert.equal(stored.slice(stored.indexOf('"data":') + 7, -1), value);
    });
  }

  test('an escaped surrogate pair is its character, and 1e300 is a number', async () => {
    assert.equal((await publish(data('["\\ud83d\\uDE00",1e300]'))).status, 204);
    assert.match(await lastStored(), /"data":\["\u{1f600}",1e\+300\]\}$/u);
  });
});

describe('a topic name is refused', () => {
  const names = [
    '..%2f',
    '%2e%2e',
    '%00',
    'ok%0AX',
    'ok%0A',
    'A',
    'wid-gets',
    'a'.repeat(65),
    '%C3%A9',
    'a%2Fb',
    '%F0%9F%98%80',
    'a:b',
    '*',
    '__proto__%20',
  ];
  for (const name of names) {
    test(name, async () => {
      const refusal: Refusal = { code: 'bad_topic', detail: TOPIC_RULE };
      await assertRefused(
        api,
        () => api.call('POST', `/topics/${name}`, { as: 'pub', body: event('') }),
        refusal,
      );
      await assertRefused(api, () => api.call('DELETE', `/topics/${name}`, { as: 'pub' }), refusal);
      await assertRefused(
        api,
        () => api.call('DELETE', `/subscriber/topics/${name}`, { as: 'sub' }),
        refusal,
      );
    });
  }

  test('with bad percent-encoding', async () => {
    for (const name of ['%zz', '%', '%ff', '%C3']) {
      const refusal: Refusal = { code: 'bad_header', detail: /check its percent-encoding/ };
      await assertRefused(
        api,
        () => api.call('POST', `/topics/${name}`, { as: 'pub', body: event('') }),
        refusal,
      );
    }
  });

  test('that contains a path separator', async () => {
    for (const path of ['/topics/../health', '/topics//', '/topics/a/b', '//topics/a'])
      await assertRefused(api, () => api.call('POST', path, { as: 'pub', body: event('') }), {
        code: 'not_found',
        detail: /there is no \//,
      });
  });

  test('but names with a meaning in JavaScript are accepted', async () => {
    for (const name of ['__proto__', 'constructor', 'a'.repeat(64), '0'])
      assert.equal((await api.call('POST', `/topics/${name}`, { as: 'pub', body: event('') })).status, 204);
    const listed = JSON.parse((await api.call('GET', '/topics', { as: 'pub' })).text);
    assert.ok(listed.some(({ name }: { name: string }) => name === '__proto__'));
  });
});

test('a body of exactly 5 MiB and one of 10,000 events are accepted', async () => {
  const padded = Buffer.alloc(5 * 1024 * 1024, ' ');
  padded.write(event(''));
  assert.equal((await publish(padded)).status, 204);
  assert.equal((await publish(`[${Array(10_000).fill(event('')).join()}]`)).status, 204);
});
