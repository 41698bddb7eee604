import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { assertRefused, assertWorks, type Refusal } from '../../harness/http/refusal.ts';

// Every refusal here is checked to store nothing, and to be followed by a publish that is accepted.
const api = new Api({ prepare: assertWorks });

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';

/** Publishes `body` as `pub`, on a connection of its own; the headers are written as they are. */
async function publish(headers: string[], body = EVENT, options = {}) {
  const authorization = `Authorization: ${await api.authorization('pub')}`;
  const head = ['POST /topics/widgets HTTP/1.1', authorization, 'Connection: close', ...headers];
  return api.raw(`${head.join('\r\n')}\r\n\r\n${body}`, options);
}

const LENGTH = `Content-Length: ${EVENT.length}`;

test('a publish with well-formed headers is accepted', async () => {
  assert.equal((await publish(['Host: bus', LENGTH])).status, 204);
  const chunks = `5\r\n${EVENT.slice(0, 5)}\r\n${(EVENT.length - 5).toString(16)}\r\n${EVENT.slice(5)}\r\n0\r\n\r\n`;
  assert.equal((await publish(['Host: bus', 'Transfer-Encoding: chunked'], chunks)).status, 204);
});

test('a target that is no URL is answered as any path that does not exist', async () => {
  const { status, text } = await api.raw('GET http://[ HTTP/1.1\r\nHost: bus\r\nConnection: close\r\n\r\n');
  const { code, detail } = JSON.parse(text);
  assert.deepEqual([status, code], [404, 'not_found']);
  assert.match(detail, /there is no http:\/\/\[/);
});

describe('a request is refused', () => {
  const malformed = /not a well-formed HTTP request/;
  const requests: [title: string, headers: string[], refusal: Refusal][] = [
    ['without Host', [LENGTH], { code: 'bad_header', detail: /the Host header is missing/ }],
    [
      'with two Host',
      ['Host: bus', 'host: bus', LENGTH],
      { code: 'bad_header', detail: /two host headers; send one/ },
    ],
    [
      'with two Authorization',
      ['Host: bus', 'Authorization: Basic eDp5', LENGTH],
      { code: 'bad_header', detail: /two authorization headers/ },
    ],
    [
      'with two Content-Type',
      ['Host: bus', 'Content-Type: a/b', 'Content-Type: application/x-ndjson', LENGTH],
      { code: 'bad_header', detail: /two content-type headers/ },
    ],
    [
      'with two Content-Encoding',
      ['Host: bus', 'Content-Encoding: identity', 'Content-Encoding: gzip', LENGTH],
      { code: 'bad_header', detail: /two content-encoding/ },
    ],
    [
      'with two Idempotency-Key',
      ['Host: bus', 'Idempotency-Key: a', 'Idempotency-Key: a', LENGTH],
      { code: 'bad_header', detail: /two idempotency-key headers; send one/ },
    ],
    [
      'with an Idempotency-Key that is none',
      ['Host: bus', 'Idempotency-Key: a b', LENGTH],
      {
        code: 'bad_header',
        detail: /Idempotency-Key must be one string of 1 to 255 visible ASCII characters/,
      },
    ],
    ['with two Content-Length', ['Host: bus', LENGTH, LENGTH], { code: 'bad_header', detail: malformed }],
    [
      'with two lengths in one Content-Length',
      ['Host: bus', `${LENGTH}, ${EVENT.length}`],
      { code: 'bad_header', detail: malformed },
    ],
    [
      'with a length and chunks',
      ['Host: bus', LENGTH, 'Transfer-Encoding: chunked'],
      { code: 'bad_header', detail: malformed },
    ],
    [
      'with a negative length',
      ['Host: bus', 'Content-Length: -1'],
      { code: 'bad_header', detail: malformed },
    ],
    ['with a space before the colon', ['Host : bus', LENGTH], { code: 'bad_header', detail: malformed }],
    [
      'with chunks that are none',
      ['Host: bus', 'Transfer-Encoding: chunked'],
      { code: 'bad_header', detail: malformed },
    ],
    [
      'with headers of over 16 KiB',
      ['Host: bus', `X: ${'x'.repeat(17_000)}`, LENGTH],
      { code: 'headers_too_large', detail: /larger than 16 KiB/ },
    ],
    [
      'with very many headers',
      ['Host: bus', ...Array(3000).fill('X: y'), LENGTH],
      { code: 'headers_too_large', detail: /more than 100 headers/ },
    ],
  ];
  for (const [title, headers, refusal] of requests) {
    test(title, () => assertRefused(api, () => publish(headers), refusal));
  }

  test('that ends early, within its body or before it', async () => {
    const refusal: Refusal = { code: 'bad_body', detail: /closed before the whole request had come/ };
    const half = EVENT.slice(0, 20);
    await assertRefused(api, () => publish(['Host: bus', LENGTH], half, { end: true }), refusal);
    const chunk = `14\r\n${half}\r\n`;
    const chunked = ['Host: bus', 'Transfer-Encoding: chunked'];
    await assertRefused(api, () => publish(chunked, chunk, { end: true }), refusal);
    await assertRefused(
      api,
      () => api.raw('POST /topics/widgets HTTP/1.1\r\nHost: b', { end: true }),
      refusal,
    );
  });

  test('that is not HTTP', async () => {
    const refusal: Refusal = { code: 'bad_header', detail: malformed };
    for (const bytes of [
      'hello\r\n\r\n',
      '\0\x01\x02\r\n\r\n',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      '\x16\x03\x01\x02\0',
    ])
      await assertRefused(api, () => api.raw(bytes), refusal);
  });

  test('whose path is not ASCII', async () => {
    const refusal: Refusal = { code: 'bad_topic', detail: /a topic name has/ };
    const head = `POST /topics/é HTTP/1.1\r\nHost: b\r\nConnection: close\r\n${LENGTH}`;
    const authorization = await api.authorization('pub');
    const request = `${head}\r\nAuthorization: ${authorization}\r\n\r\n${EVENT}`;
    await assertRefused(api, () => api.raw(Buffer.from(request, 'utf8')), {
      ...refusal,
      code: 'bad_header',
      detail: malformed,
    });
  });
});

test('a client that hangs up during a request leaves nothing behind', async () => {
  const authorization = await api.authorization('pub');
  for (let i = 0; i < 20; i++) {
    const socket = connect(api.port, '127.0.0.1');
    const head = [
      'POST /topics/gone HTTP/1.1',
      'Host: bus',
      'Content-Length: 99',
      `Authorization: ${authorization}`,
    ];
    await new Promise((written) => socket.write(`${head.join('\r\n')}\r\n\r\n{"type":`, written));
    socket.resetAndDestroy();
  }
  await assertWorks(api);
  assert.equal(await api.store.redis.exists(api.store.keys.topic('gone')), 0);
  assert.doesNotMatch(api.web.output, /a request failed|"level":[56]0/);
});

test('requests that come in one packet are answered in their order', async () => {
  const authorization = await api.authorization('pub');
  const ask = (path: string, more = '') =>
    `GET ${path} HTTP/1.1\r\nHost: bus\r\nAuthorization: ${authorization}\r\n${more}\r\n`;
  const { status, text } = await api.raw(
    ask('/topics') + ask('/nope') + ask('/health', 'Connection: close\r\n'),
  );
  assert.equal(status, 200);
  assert.deepEqual(
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, next]) => next),
    ['404', '200'],
  );
});

test('a client that ends its side of the connection behind its requests gets all answers', async () => {
  const head = `Host: bus\r\nAuthorization: ${await api.authorization('pub')}\r\n`;
  const event = `POST /topics/half_closed HTTP/1.1\r\n${head}Content-Length: ${EVENT.length}\r\n\r\n${EVENT}`;
  const { status, text } = await api.raw(`${event.repeat(9)}GET /pulse HTTP/1.1\r\n${head}\r\n`, {
    end: true,
  });
  assert.equal(status, 204);
  assert.equal(text.match(/HTTP\/1\.1 204/g)?.length, 9);
});
