import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { problemIn } from '../../../harness/http/api.ts';
import { assertRefused, assertWorks } from '../../../harness/http/refusal.ts';
import { api } from './default_api.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const CLOSE = 'Connection: close';
const ALL = { code: 'method_not_allowed', detail: /takes/ } as const;

/** Sends one request as it is written. The client `pub` makes it, unless it is a stranger's. */
async function raw(
  line: string,
  headers: readonly string[],
  body = '',
  { stranger = false, end = false } = {},
) {
  const known = stranger ? [] : [`Authorization: ${await api.authorization('pub')}`];
  return api.raw(`${[line, 'Host: bus', ...known, ...headers].join('\r\n')}\r\n\r\n${body}`, { end });
}

describe('Expect: 100-continue', () => {
  const expecting = (more: string[], length = EVENT.length) => [
    'Expect: 100-continue',
    `Content-Length: ${length}`,
    ...more,
  ];
  const PUBLISH = 'POST /topics/widgets HTTP/1.1';

  test('the body is asked for if it will be read, and the connection is kept', async () => {
    const first = [
      PUBLISH,
      'Host: bus',
      `Authorization: ${await api.authorization('pub')}`,
      ...expecting([]),
    ];
    const second = 'GET /health HTTP/1.1\r\nHost: bus\r\nConnection: close\r\n\r\n';
    const { status, text } = await api.raw(`${first.join('\r\n')}\r\n\r\n${EVENT}${second}`);
    assert.equal(status, 100);
    assert.match(text, /^HTTP\/1\.1 204 No Content\r\n.*Connection: keep-alive\r\n.*HTTP\/1\.1 200 OK/s);
  });

  test('the body is also asked for on routes through Express', async () => {
    const body = '{"topics":[],"callback":"https://app.example.com/","uuid":"x"}';
    const line = 'POST /subscription HTTP/1.1';
    const { status, text } = await raw(line, expecting([CLOSE], body.length), body);
    assert.equal(status, 100);
    assert.match(text, /^HTTP\/1\.1 204 /);
  });

  // Nothing is sent after the head: an answer shows that the bus did not wait for the body. Then the bus closes the
  // connection, as the next bytes on it could be the body or another request.
  const refused: [title: string, line: string, headers: string[], status: number, stranger?: boolean][] = [
    ['of a stranger', PUBLISH, expecting([]), 401, true],
    ['with a wrong secret', PUBLISH, expecting(['Authorization: Basic eDp5']), 401, true],
    ['that is too large', PUBLISH, expecting([], 6_000_000), 413],
    ['that is compressed', PUBLISH, expecting(['Content-Encoding: gzip']), 415],
    ['with a bad name', 'POST /topics/A HTTP/1.1', expecting([]), 400],
    ['with a bad Idempotency-Key', PUBLISH, expecting(['Idempotency-Key: a b']), 400],
    ['for nobody', 'POST /nobody HTTP/1.1', expecting([]), 404],
    ['by another method', 'PUT /topics/widgets HTTP/1.1', expecting([]), 405],
    ['of a subscription by a stranger', 'POST /subscription HTTP/1.1', expecting([]), 401, true],
    ['of a client by a client', 'POST /api_tokens HTTP/1.1', expecting([]), 403],
  ];
  for (const [title, line, headers, status, stranger = false] of refused) {
    test(`a request ${title} is refused without reading its body`, async () => {
      const answer = await raw(line, headers, '', { stranger });
      assert.equal(answer.status, status);
      assert.equal(answer.headers.connection, 'close');
      problemIn(answer);
    });
  }

  test('other expectations are refused', async () => {
    const { status } = await raw(
      PUBLISH,
      ['Expect: miracles', `Content-Length: ${EVENT.length}`, CLOSE],
      EVENT,
    );
    assert.equal(status, 417);
  });
});

describe('other methods', () => {
  const paths = [
    ...['/topics', '/topics/widgets', '/topic/widgets', '/subscription', '/subscriptions', '/subscriber'],
    ...['/subscriber/topics/widgets', '/subscribers', '/subscribers/x', '/dead_letters', '/dead_letters/x'],
    ...['/dead_letters/x/retry', '/dead_letters/retry', '/api_tokens', '/api_tokens/x/secret'],
    ...['/pulse', '/pulse/scaling', '/metrics', '/health', '/health/ping'],
  ];
  for (const method of ['PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'PURGE', 'M-SEARCH', 'QUERY']) {
    test(`${method} is answered 405 with Allow, to strangers too`, async () => {
      for (const path of paths) {
        const answer = await raw(`${method} ${path} HTTP/1.1`, [CLOSE], '', { stranger: true });
        assert.equal(problemIn(answer).code, ALL.code, `${method} ${path}`);
        const allowed = String(answer.headers.allow).split(', ');
        assert.ok(allowed.length > 0 && allowed.every((each) => /^(GET|HEAD|POST|DELETE)$/.test(each)), path);
        assert.equal(allowed.includes('HEAD'), allowed.includes('GET'), path);
      }
    });
  }

  test('CONNECT is answered 405 with Allow', async () => {
    const answer = await raw('CONNECT bus:80 HTTP/1.1', [], '', { stranger: true });
    assert.equal(problemIn(answer).code, 'method_not_allowed');
    assert.equal(answer.headers.allow, 'GET, HEAD, POST, PUT, DELETE');
  });

  for (const method of ['BREW', 'GETT', 'get', 'DESCRIBE', 'X-1']) {
    test(`${method}, which is no method, is answered 405 with Allow`, async () => {
      for (const path of ['/topics', '/health', '/nothing', '*']) {
        const answer = await raw(`${method} ${path} HTTP/1.1`, [], '', { stranger: true });
        assert.equal(answer.status, 405, path);
        assert.match(problemIn(answer).detail, /no such method; methods are GET, HEAD, .* in capitals/);
        assert.equal(answer.headers.allow, 'GET, HEAD, POST, PUT, DELETE');
        assert.equal(answer.headers.connection, 'close');
      }
    });
  }

  test('bytes that are no request have no method, but are malformed', async () => {
    for (const line of [
      'GET',
      'BREW',
      'BREW /topics',
      'BR{W /topics HTTP/1.1',
      'BREW /topics HTTP/1.1 x',
      'GET/ HTTP/1.1',
    ])
      assert.equal(problemIn(await raw(line, [], '', { stranger: true })).code, 'bad_header', line);
  });

  test('an unknown method behind another request is answered after it', async () => {
    const next = 'BREW /topics HTTP/1.1\r\nHost: bus\r\n\r\n';
    const { status, text } = await raw('GET /health HTTP/1.1', [], next, { stranger: true });
    assert.equal(status, 200);
    assert.match(text, /HTTP\/1\.1 405 .*"method_not_allowed"/s);
  });

  test('a request with an Upgrade header is answered in HTTP/1.1', async () => {
    const upgrade = ['Connection: upgrade, close', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
    assert.equal((await raw('GET /health HTTP/1.1', upgrade)).status, 200);
  });
});

describe('headers', () => {
  const many = (count: number) => Array.from({ length: count }, (_, n) => `X${n}: y`);
  const publish = (headers: string[]) =>
    raw('POST /topics/widgets HTTP/1.1', [`Content-Length: ${EVENT.length}`, CLOSE, ...headers], EVENT);

  test('a hundred are accepted, and a hundred and one are refused', async () => {
    assert.equal((await publish(many(96))).status, 204);
    await assertRefused(api, () => publish(many(97)), {
      code: 'headers_too_large',
      detail: /more than 100 headers/,
    });
  });

  // Node by itself ignores headers after the 2,000th, so that a router and the bus would see different requests.
  test('none is ignored, however many come before it', async () => {
    const short = Array(2100).fill('a:');
    await assertRefused(api, () => publish([...short, 'Authorization: Basic eDp5']), {
      code: 'headers_too_large',
      detail: /more than 100 headers/,
    });
  });
});

describe('a body with a transfer coding', () => {
  const HEAD = 'POST /topics/widgets HTTP/1.1';
  const chunks = `${EVENT.length.toString(16)}\r\n${EVENT}\r\n0\r\n\r\n`;
  const next = 'GET /health HTTP/1.1\r\nHost: bus\r\n\r\n';

  for (const coding of ['gzip, chunked', 'x, chunked', ', chunked', 'identity, chunked']) {
    test(`is not understood: ${coding}`, async () => {
      for (const line of [HEAD, 'POST /subscription HTTP/1.1', 'GET /health HTTP/1.1']) {
        const answer = await raw(line, [`Transfer-Encoding: ${coding}`], chunks + next);
        assert.doesNotMatch(answer.text, /HTTP\/1.1/, 'nothing is read behind it');
        assert.equal(problemIn(answer).code, 'unsupported_transfer_coding');
        assert.equal(answer.headers.connection, 'close');
      }
    });
  }

  test('may come in two headers', async () => {
    const headers = ['Transfer-Encoding: gzip', 'Transfer-Encoding: chunked'];
    assert.equal((await raw(HEAD, headers, chunks)).status, 501);
  });

  test('is refused in HTTP/1.0', async () => {
    const headers = ['Transfer-Encoding: chunked', 'Connection: keep-alive'];
    const answer = await raw(HEAD.replace('1.1', '1.0'), headers, chunks + next);
    assert.equal(problemIn(answer).code, 'bad_header');
    assert.equal(answer.headers.connection, 'close');
  });

  test('is accepted when chunked, in any spelling', async () => {
    for (const coding of ['chunked', 'Chunked', ' chunked '])
      assert.equal((await raw(HEAD, [CLOSE, `Transfer-Encoding: ${coding}`], chunks)).status, 204);
  });
});

describe('a chunk whose extension ends in a bare LF', () => {
  const size = EVENT.length.toString(16);
  const bodies = [
    `${size};a=b\n${EVENT}\r\n0\r\n\r\n`,
    `${size};\n${EVENT}`,
    `${size}\r\n${EVENT}\r\n0;a="b"\n\r\n`,
  ];
  for (const [title, more] of [
    ['', []],
    [', of a request that wants another protocol', ['Connection: upgrade', 'Upgrade: h2c']],
    [', of one that waits to be asked', ['Expect: 100-continue']],
  ] as const) {
    test(`is refused at once${title}`, async () => {
      for (const body of bodies)
        for (const end of [false, true]) {
          const { status, text, tookMs } = await raw(
            'POST /topics/widgets HTTP/1.1',
            ['Transfer-Encoding: chunked', ...more],
            body,
            { end },
          );
          assert.match(`${status} ${text}`, /^(100 HTTP\/1\.1 )?400 /, body);
          assert.ok(tookMs < 5000, `${tookMs} ms`);
        }
    });
  }
});

test('a request that two parsers could read differently is refused', async () => {
  const head = 'POST /topics/widgets HTTP/1.1';
  const heads = [
    `${head}\nHost: bus\nContent-Length: 0\n\n`,
    `${head}\r\nHost: bus\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${head}\r\nHost: bus\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
    `${head}\r\nHost: bus\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
    `${head}\r\nHost: bus\r\nContent-Length: +5\r\n\r\nhello`,
    `${head}\r\nHost: bus\r\nX: a\r\n folded\r\n\r\n`,
    `${head}\r\nHost: bus\r\nX: a\rb: c\r\n\r\n`,
  ];
  for (const bytes of heads) {
    const answer = await api.raw(bytes, { end: true });
    assert.equal(answer.status, 400, JSON.stringify(bytes));
    assert.equal(answer.headers.connection, 'close');
  }
});

describe('a request that a page of another site makes a browser send with stored credentials', () => {
  const from = (site: string, method: string, path: string, body?: string) =>
    api.call(method, path, {
      as: 'pub',
      headers: { 'sec-fetch-site': site, 'content-type': 'text/plain' },
      ...(body !== undefined && { body }),
    });

  for (const site of ['cross-site', 'same-site', 'else']) {
    test(`is refused: ${site}`, async () => {
      const refusal = { code: 'forbidden', detail: /another site/ } as const;
      await assertRefused(api, () => from(site, 'POST', '/topics/widgets', EVENT), refusal);
      await assertRefused(api, () => from(site, 'POST', '/topics/widgets?', EVENT), refusal);
      await assertRefused(api, () => from(site, 'GET', '/topics'), refusal);
    });
  }

  for (const origin of ['https://evil.example.com', 'null', 'http://127.0.0.1:1']) {
    test(`is refused by the Origin ${origin} where the browser sends nothing else`, async () => {
      const headers = { origin, 'content-type': 'text/plain' };
      const publish = () => api.call('POST', '/topics/widgets', { as: 'pub', headers, body: EVENT });
      await assertRefused(api, publish, { code: 'forbidden', detail: /another site/ });
    });
  }

  test('is accepted from a page of the bus itself', async () => {
    const own: Record<string, string>[] = [
      { origin: `http://127.0.0.1:${api.port}` },
      { origin: 'http://bus.internal', host: 'bus.internal:80' },
      { origin: 'https://bus.example.com', host: 'BUS.example.com:443' },
      { origin: 'http://[2001:db8::1]', host: '[2001:db8::1]:80' },
    ];
    for (const headers of own) {
      const { status } = await api.call('POST', '/topics/widgets', { as: 'pub', headers, body: EVENT });
      assert.equal(status, 204, headers.host);
    }
  });

  test('is refused from a page at another port of the host', async () => {
    for (const [origin, host] of [
      ['http://bus.internal', 'bus.internal:443'],
      ['https://bus.internal', 'bus.internal:80'],
      ['http://bus.internal:3000', 'bus.internal'],
    ] as const) {
      const call = { as: 'pub', headers: { origin, host }, body: EVENT };
      const refusal = { code: 'forbidden', detail: /another site/ } as const;
      await assertRefused(api, () => api.call('POST', '/topics/widgets', call), refusal);
    }
  });

  test('a request that a person makes in a browser is accepted', async () => {
    assert.equal((await from('none', 'GET', '/topics')).status, 200);
    assert.equal((await from('same-origin', 'POST', '/topics/widgets', EVENT)).status, 204);
  });
});

describe('a bomb', () => {
  const zeros = Buffer.alloc(50 * 1024 * 1024);
  // Brotli takes 0.6 s of CPU for these zeros by default.
  const fast = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
  const bombs: [encoding: string, body: Buffer][] = [
    ['gzip', gzipSync(zeros)],
    ['deflate', deflateSync(zeros)],
    ['br', brotliCompressSync(zeros, fast)],
    ['gzip, gzip', gzipSync(gzipSync(zeros))],
  ];
  for (const [encoding, body] of bombs) {
    test(`in ${encoding} is refused as it is, on every path that takes a body`, async () => {
      const refusal = { code: 'unsupported_encoding', detail: /without Content-Encoding/ } as const;
      const headers = { 'content-encoding': encoding };
      for (const [as, path] of [
        ['pub', '/topics/widgets'],
        ['pub', '/subscription'],
        ['root', '/api_tokens'],
      ] as const)
        await assertRefused(api, () => api.call('POST', path, { as, headers, body }), refusal);
    });
  }
});

describe('JSON', () => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  const data = (json: string) => EVENT.replace('}', `,"data":${json}}`);
  const publish = (body: string) => api.call('POST', '/topics/widgets', { as: 'pub', body });

  test('data of 64 levels is accepted; deeper data is refused, however deep', async () => {
    assert.equal((await publish(data(nested(64)))).status, 204);
    for (const levels of [65, 1000, 1_000_000]) {
      const refusal = { code: 'bad_event', field: 'data', detail: /deeper than 64 levels/ } as const;
      await assertRefused(api, () => publish(data(nested(levels))), refusal);
    }
  });

  test('members other than data may not be nested', async () => {
    for (const levels of [2, 65, 1_000_000]) {
      const deep = nested(levels);
      for (const [as, path, body] of [
        ['pub', '/topics/widgets', deep],
        ['pub', '/topics/widgets', EVENT.replace('"noop"', deep)],
        ['pub', '/topics/widgets', EVENT.replace('}', `,"other":${deep}}`)],
        ['pub', '/subscription', `{"topics":${deep},"callback":"https://a.example/"}`],
        ['pub', '/subscription', `{"topics":[],"callback":"https://a.example/","other":${deep}}`],
        ['root', '/api_tokens', `{"name":${deep}}`],
      ] as const) {
        const { status } = await api.call('POST', path, { as, body });
        const isTooLong = path !== '/topics/widgets' && levels > 1000;
        assert.equal(status, isTooLong ? 413 : 400, `${path} ${body.slice(0, 70)}`);
      }
    }
  });

  test('__proto__ is a name like any other, and changes nothing', async () => {
    for (const name of ['__proto__', 'constructor', 'prototype']) {
      const poison = `{"${name}":{"polluted":"yes","role":"root","type":"noop","timeout":1}}`;
      assert.equal((await publish(data(poison))).status, 204);
      const calls = [
        ['pub', '/topics/widgets', poison],
        ['pub', '/topics/widgets', EVENT.replace('}', `,"${name}":{"data":1}}`)],
        ['pub', '/subscription', `{"topics":[],"callback":"https://a.example/","${name}":{"uuid":"x"}}`],
        ['root', '/api_tokens', `{"${name}":{"name":"x"}}`],
      ] as const;
      for (const [as, path, body] of calls)
        assert.equal((await api.call('POST', path, { as, body })).status, 400, body);
    }
    const { status } = await api.call('GET', '/api_tokens', { as: 'pub' });
    assert.equal(status, 403, 'nobody became root');
    await assertWorks(api);
  });
});
