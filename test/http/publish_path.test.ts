import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Answer, Api, basic } from '../../harness/http/api.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';

// A publish with a plainly written path finds its row of the route table without Express. Any other request passes
// through Express. Both must get the same answers.
const [PLAIN, GENERAL] = ['/topics/widgets', '/topics/widgets?'];

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const JSON_TYPE = 'Content-Type: application/json';
const api = new Api({
  prepare: async (bus) => {
    for (const [as, topic] of [
      ['pub', 'widgets'],
      ['mill', 'bolts'],
    ] as const)
      assert.equal((await bus.call('POST', `/topics/${topic}`, { as, body: EVENT })).status, 204);
  },
});

interface Sent {
  as?: string;
  method?: string;
  headers?: string[];
  body?: string;
  /** The request lacks what requests usually have: host, length and credentials. */
  bare?: boolean;
  /** The request has no length. */
  chunked?: boolean;
}

async function answer(target: string, sent: Sent) {
  const { as = 'pub', method = 'POST', headers = [], body = EVENT, bare = false, chunked = false } = sent;
  const head = [`${method} ${target} HTTP/1.1`, 'Connection: close', ...headers];
  if (!bare) head.push('Host: bus', `Authorization: ${await api.authorization(as)}`);
  if (!bare) head.push(chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`);
  return comparable(await api.raw(`${head.join('\r\n')}\r\n\r\n${body}`));
}

/** Returns an answer without the parts that always differ: the time, and nonces. */
function comparable({ status, headers, text }: Answer) {
  const { date: _, ...rest } = headers;
  const known = JSON.stringify(rest).replaceAll(/nonce=\\"[^"]*"/g, '');
  // After `100 Continue`, `send` would take the answer for the text of that interim response.
  return { status, headers: known, text: text.replace(/^Date: .*$/m, '') };
}

const LENGTH = `Content-Length: ${EVENT.length}`;
const CHUNKS = `${EVENT.length.toString(16)}\r\n${EVENT}\r\n0\r\n\r\n`;
const USER = 'Digest username="root", realm="Routemaster", qop=auth, nc=00000001, cnonce="c"';

const requests: [title: string, status: number, sent: Sent][] = [
  ['an event', 204, { headers: [JSON_TYPE] }],
  ['an event without a content type', 204, {}],
  ['an event in chunks', 204, { chunked: true, body: CHUNKS }],
  ['an array', 204, { body: `[${EVENT},${EVENT}]` }],
  ['NDJSON', 204, { headers: ['Content-Type: application/x-ndjson'], body: `${EVENT}\n\n${EVENT}\n` }],
  [
    'NDJSON in capitals',
    204,
    { headers: ['Content-Type: Application/X-NDJSON'], body: `${EVENT}\n${EVENT}` },
  ],
  ['an empty array', 400, { body: '[]' }],
  ['no body', 400, { body: '' }],
  ['white space', 400, { body: ' \n' }],
  ['no JSON', 400, { body: '{"type"' }],
  ['no UTF-8', 400, { body: '"\xff"' }],
  ['an unknown field', 400, { body: '{"type":"noop","url":"https://a.example","x":1}' }],
  ['a number that is too large', 400, { body: '{"type":"noop","url":"https://a.example","data":1e999}' }],
  ['half a character', 400, { body: '{"type":"noop","url":"https://a.example","data":"\\ud800"}' }],
  ['a body that is not compressed, in capitals', 204, { headers: ['Content-Encoding: Identity'] }],
  ['a body with an empty encoding', 204, { headers: ['Content-Encoding:'] }],
  ['a compressed body', 415, { headers: ['Content-Encoding: gzip'] }],
  ['a key that is none', 400, { headers: ['Idempotency-Key: a b'] }],
  ['another client’s topic', 403, { as: 'mill' }],
  ['root', 403, { as: 'root' }],
  ['nobody', 401, { bare: true, headers: ['Host: bus', LENGTH] }],
  [
    'a wrong secret',
    401,
    { bare: true, headers: ['Host: bus', LENGTH, `Authorization: ${basic('x', 'y')}`] },
  ],
  ['an unknown scheme', 401, { bare: true, headers: ['Host: bus', LENGTH, 'Authorization: Bearer x'] }],
  [
    'Digest that cannot be read',
    400,
    { bare: true, headers: ['Host: bus', LENGTH, 'Authorization: Digest x'] },
  ],
  [
    'Digest for another target',
    400,
    {
      bare: true,
      headers: [
        'Host: bus',
        LENGTH,
        `Authorization: ${USER}, uri="/", nonce="n", response="${'0'.repeat(32)}"`,
      ],
    },
  ],
  ['no Host', 400, { bare: true, headers: [LENGTH, `Authorization: ${basic(ROOT_KEY, '')}`] }],
  ['two Authorization', 400, { headers: ['Authorization: Basic eDp5'] }],
  ['two Content-Type', 400, { headers: [JSON_TYPE, JSON_TYPE] }],
  [
    'two of what may be there twice',
    204,
    { headers: ['Accept: a/b', 'X: y', 'Accept: c/d', 'x: y', 'Cookie: a', 'Cookie: b'] },
  ],
  ['a strange name of a header', 204, { headers: ['__proto__: x', 'constructor: y'] }],
  ['what waits to be asked for its body', 100, { headers: ['Expect: 100-continue'] }],
  ['an unknown expectation', 417, { headers: ['Expect: miracles'] }],
  ['GET', 200, { method: 'GET' }],
  ['HEAD', 200, { method: 'HEAD' }],
  ['OPTIONS', 405, { method: 'OPTIONS', body: '' }],
  ['PUT', 405, { method: 'PUT' }],
];

for (const [title, status, sent] of requests) {
  test(title, async () => {
    const plain = await answer(PLAIN, sent);
    assert.equal(plain.status, status, plain.text);
    assert.deepEqual(await answer(GENERAL, sent), plain);
  });
}

describe('the name', () => {
  const names: [target: string, status: number][] = [
    ['/topics/widg%65ts', 204],
    ['/topics/widgets?a=b', 400],
    ['http://bus/topics/widgets', 204],
    ['/topics/Widgets', 400],
    ['/topics/widg%20ets', 400],
    [`/topics/${'a'.repeat(65)}`, 400],
    ['/topics/%zz', 400],
    ['/topics/widgets/', 404],
    ['/Topics/widgets', 404],
    ['//topics/widgets', 404],
    ['/topics/', 404],
  ];
  for (const [target, status] of names)
    test(target, async () => assert.equal((await answer(target, {})).status, status));
});

test('a publish waits for no replica unless ROUTEMASTER_MIN_REPLICAS is set', async () => {
  assert.equal((await answer(PLAIN, {})).status, 204);
  assert.doesNotMatch(await api.store.redis.info('commandstats'), /cmdstat_wait:/);
});
