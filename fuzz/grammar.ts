import type { Random } from '../harness/random.ts';
import { routeTable } from '../harness/route_table.ts';
import { askedName } from '../src/subscribing/subscription_input.ts';
import { SETTING_NAMES } from '../src/subscribing/subscription_settings.ts';

/** Credentials that requests may carry. */
export interface Known {
  /** Authorization headers of a client and of root. */
  client: string;
  root: string;
}

/** A request as it goes over the wire. */
export interface Sent {
  bytes: Buffer;
  /** True if its framing is right, so that the connection can be used again. */
  framed: boolean;
  method: string;
}

type Draw = (random: Random) => string;

/** Routes that are drawn more often than others: they take the longest bodies. */
const OFTEN = { 'POST /topics/:name': 12, 'POST /subscription': 4 } as Record<string, number>;
/** The values that replace the parameters in the paths of routes. */
const PARAMETERS: Record<string, string> = { ':name': 'a', ':token': 'x', ':id': 'a'.repeat(20) };

/** All routes of the API. */
export const ROUTES: [methods: string, path: string][] = routeTable().flatMap(({ method, path }) => {
  const filled = path.replaceAll(/:\w+/g, (parameter) => PARAMETERS[parameter] ?? 'x');
  return Array(OFTEN[`${method} ${path}`] ?? 1).fill([method, filled]);
});
const SEGMENTS = [
  ...['..', '.', '%2e%2e', '%2f', '%00', '%', '%zz', '%ff', '%C3', '%F0%9F%98%80', '*', '?', '#', ';a=b'],
  ...[
    '__proto__',
    'constructor',
    'a'.repeat(65),
    'A',
    '-',
    '',
    ' ',
    '%0d%0aX:y',
    '\xe9',
    "'",
    '"',
    '<script>',
  ],
];
const QUERIES = [
  'limit=-1',
  'limit=1e9',
  'limit=',
  'limit=1&limit=2',
  'before=x',
  'after=x',
  'limit=1',
  'subscriber=',
  'a[b]=c',
  '%',
  '&&&',
];
const METHODS = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'LINK', 'QUERY'];
const VALUES = [
  ...[
    'null',
    'true',
    '0',
    '-1',
    '1.5',
    '1e308',
    '1e999',
    '9007199254740993',
    '123456789012345678901234567890',
  ],
  ...[
    '""',
    '"x"',
    '"\\ud800"',
    '"\\u0000"',
    '"\u{7f}"',
    '[]',
    '{}',
    '[[]]',
    '{"a":1}',
    '[null]',
    '"https://"',
  ],
  ...['"https://a.example/"', '"http://127.0.0.1/"', '"https://u:p@a.example/"', '"noop"', '"create"', '"a"'],
];
/** Names of members of objects: all fields of bodies that the API takes, and some that they do not have. */
export const NAMES = [
  ...['type', 'url', 'timestamp', 'data', 'topics', 'callback', 'uuid', 'name', 'token', 'signing_secret'],
  ...SETTING_NAMES.map(askedName),
  ...[
    'id',
    'at',
    'client',
    'topic',
    'event',
    'schedule',
    'start',
    'end',
    'offset',
    'catch_up',
    'paused',
    'cron',
    'timezone',
  ],
  ...['every', 'sources', 'by', 'then', 'within', 'on_expiry', 'count', 'grace', 'secret_at'],
  ...['delay', 'publish', 'subscribe', 'secret', '__proto__', 'constructor', 'toString', '', 'x'],
];
const HEADERS = [
  ...[
    'Content-Type: application/x-ndjson',
    'Content-Type: text/plain',
    'Content-Type: multipart/form-data; boundary=a',
  ],
  ...[
    'Content-Type: application/json; charset=utf-16',
    'Content-Encoding: gzip',
    'Content-Encoding: identity',
  ],
  ...[
    'Idempotency-Key: "a"',
    'Idempotency-Key: a b',
    'Idempotency-Key:',
    'Idempotency-Key: "\\""',
    'Host: other',
  ],
  ...[
    'X-Forwarded-Proto: http',
    'X-Forwarded-For: 1.2.3.4',
    'Cookie: a=b',
    'Accept: */*',
    'Range: bytes=0-1',
  ],
  ...[
    'Connection: upgrade\r\nUpgrade: h2c',
    'Upgrade: websocket',
    'If-Match: *',
    'Expect: miracles',
    'Sec-Fetch-Site: cross-site',
  ],
  ...[
    'X-HTTP-Method-Override: DELETE',
    '__proto__: x',
    'constructor: y',
    `X: ${'y'.repeat(8000)}`,
    'TE: trailers',
  ],
];
const EVENT = '{"type":"noop","url":"https://a.example/1"}';
/** A trigger and a join, which need more members than `json` makes by chance. */
const DEFINITIONS = [
  `{"topic":"t1","schedule":{"every":60000},"event":${EVENT}}`,
  '{"sources":[{"topic":"t1"}],"by":"url","then":{"topic":"joined"}}',
];

/** Random JSON, mostly shallow and short. */
const json: Draw = (random) => value(random, 0);

function value(random: Random, depth: number): string {
  const kind = random.whole(0, depth > 3 ? 1 : 9);
  if (kind <= 5) return random.pick(VALUES);
  const items = Array.from({ length: random.whole(0, 4) }, () => value(random, depth + 1));
  if (kind <= 7) return `[${items.join()}]`;
  return `{${items.map((each) => `${JSON.stringify(random.pick(NAMES))}:${each}`).join()}}`;
}

const deep: Draw = (random) => {
  const levels = random.pick([65, 1000, 30_000]);
  const [open, shut] = random.pick([
    ['[', ']'],
    ['{"a":', '}'],
  ] as const);
  return EVENT.replace('}', `,"data":${open.repeat(levels)}1${shut.repeat(levels)}}`);
};
const event: Draw = (random) =>
  EVENT.replace('}', `,${JSON.stringify(random.pick(NAMES))}:${value(random, 1)}}`);
const events: Draw = (random) =>
  `[${Array.from({ length: random.whole(0, 20) }, () => event(random)).join()}]`;
const definition: Draw = (random) =>
  random
    .pick(DEFINITIONS)
    .replace(/\}$/, random.pick(['}', `,${JSON.stringify(random.pick(NAMES))}:${value(random, 1)}}`]));
const lines: Draw = (random) =>
  Array.from({ length: random.whole(0, 20) }, () => random.pick([event, json])(random)).join(
    random.pick(['\n', '\r\n', '\r']),
  );
const cut: Draw = (random) => {
  const whole = random.pick([event, events, json])(random);
  return whole.slice(0, random.whole(0, whole.length));
};
const noise: Draw = (random) => Array.from({ length: random.whole(0, 200) }, () => char(random)).join('');
const char: Draw = (random) => String.fromCharCode(random.whole(0, 255));

const BODIES: Draw[] = [
  json,
  json,
  event,
  event,
  events,
  definition,
  lines,
  cut,
  noise,
  () => '',
  () => EVENT,
];

function body(random: Random): string {
  return random.chance(0.002) ? deep(random) : random.pick(BODIES)(random);
}

/** A route of the API, sometimes with another last segment, an extra one, a query, or another method. */
function target(random: Random): { method: string; path: string } {
  const [method, path] = random.pick(ROUTES);
  const isPublish = method === 'POST' && path === '/topics/a';
  const named = isPublish ? `/topics/t${random.whole(0, 50)}` : path;
  const other = random.chance(0.1) ? named.replace(/[^/]*$/, random.pick(SEGMENTS)) : named;
  const more = random.chance(0.03) ? `/${random.pick(SEGMENTS)}` : '';
  const query = random.chance(0.1) ? `?${random.pick(QUERIES)}` : '';
  return { method: random.chance(0.1) ? random.pick(METHODS) : method, path: `${other}${more}${query}` };
}

/** Rarely wrong credentials: the bus slows down clients that fail to log in, which is not what is tested here. */
function credentials(random: Random, known: Known): string[] {
  const kind = random.whole(0, 999);
  if (kind < 600) return [`Authorization: ${known.client}`];
  if (kind < 900) return [`Authorization: ${known.root}`];
  if (kind < 998) return [];
  const wrong = [
    'Basic',
    'Basic %%%',
    'Digest',
    'Digest username="a',
    'Digest a=b,c="\\',
    'Bearer x',
    'Basic eA==',
  ];
  return [`Authorization: ${random.pick(wrong)}`];
}

const CHUNKED = 'Transfer-Encoding: chunked';

function chunks(random: Random, text: string): string {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const piece = text.slice(at, at + random.whole(1, Math.max(1, text.length)));
    const extension = random.chance(0.1) ? ';a=b' : '';
    pieces.push(`${piece.length.toString(16)}${extension}\r\n${piece}\r\n`);
    at += piece.length;
  }
  return `${pieces.join('')}0\r\n${random.chance(0.05) ? 'X: trailer\r\n' : ''}\r\n`;
}

/** Makes a request with correct framing and wrong contents. By chance some contents are correct. */
export function misspoken(random: Random, known: Known): Sent {
  const { method, path } = target(random);
  const text = /^(GET|HEAD|DELETE)$/.test(method) && random.chance(0.9) ? '' : body(random);
  const isChunked = text !== '' && random.chance(0.2);
  const head = [
    `${method} ${path.replaceAll(/[ #\xe9]/g, '_')} HTTP/1.1`,
    'Host: bus',
    ...credentials(random, known),
    ...Array.from({ length: random.pick([0, 0, 1, 2]) }, () => random.pick(HEADERS)),
    ...(isChunked ? [CHUNKED] : text === '' ? [] : [`Content-Length: ${text.length}`]),
  ];
  const sent = isChunked ? chunks(random, text) : text;
  return { bytes: Buffer.from(`${head.join('\r\n')}\r\n\r\n${sent}`, 'latin1'), framed: true, method };
}

/** Makes a valid request. */
export function wellSpoken(random: Random, { client }: Known): Sent {
  const head = [`POST /topics/t${random.whole(0, 50)} HTTP/1.1`, 'Host: bus', `Authorization: ${client}`];
  const text = `${head.join('\r\n')}\r\nContent-Length: ${EVENT.length}\r\n\r\n${EVENT}`;
  return { bytes: Buffer.from(text, 'latin1'), framed: true, method: 'POST' };
}

/** Ways to break the framing of a request. */
const BREAKS: ((random: Random, text: string) => string)[] = [
  (random, text) => text.slice(0, random.whole(0, text.length)),
  (random, text) => replaceSome(random, text),
  (random, text) => text.replace('\r\n\r\n', random.pick(['\n\n', '\r\n', '\r\r', '\r\n \r\n\r\n', '\0'])),
  (_, text) => text.replaceAll('\r\n', '\n'),
  (random, text) =>
    text.replace(
      /Content-Length: \d+/,
      `Content-Length: ${random.pick(['-1', '1,1', '0x10', '1e3', '99999999999999999999', ''])}`,
    ),
  (_, text) => text.replace('\r\n', `\r\n${CHUNKED}\r\nContent-Length: 5\r\n`),
  (random, text) =>
    text.replace(
      '\r\n',
      `\r\n${random.pick(['Content-Length: 3\r\nContent-Length: 4', 'X\r\n', ': y', ' X: y', 'X : y', 'X: \0', 'Transfer-Encoding: x, chunked', 'Transfer-Encoding: chunked, identity'])}\r\n`,
    ),
  (random, text) =>
    text.replace(
      'HTTP/1.1',
      random.pick(['HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/9.9', 'http/1.1', 'ICY/1.0', '']),
    ),
  (random, text) =>
    text.replace(
      '\r\n',
      `\r\n${Array(random.pick([99, 101, 3000]))
        .fill('a: b')
        .join('\r\n')}\r\n`,
    ),
  (random, text) => text.replace('\r\n', `\r\nX: ${'y'.repeat(random.pick([16_000, 17_000, 70_000]))}\r\n`),
  (random, text) => text.replace('Host: bus\r\n', random.pick(['', 'Host: a\r\nHost: b\r\n', 'Host:\r\n'])),
  (_, text) => text.replace('\r\n', '\r\nExpect: 100-continue\r\n'),
  (_, text) =>
    text.replace('\r\n', '\r\nConnection: upgrade\r\nUpgrade: h2c\r\n').replaceAll(';a=b\r\n', ';a=b\n'),
  (random, text) => `${text}${noiseOf(random, 50)}`,
  (random, text) => `${text}${text}${noiseOf(random, 20)}${text}`,
  (random, text) =>
    text.replace(/^\S+/, random.pick(['', 'G', 'CONNECT', 'PRI', 'POST\t', 'p', 'BREW', '\x16\x03\x01'])),
  (random) => noiseOf(random, 300),
];

const noiseOf = (random: Random, most: number) =>
  Array.from({ length: random.whole(0, most) }, () => char(random)).join('');

function replaceSome(random: Random, text: string): string {
  const bytes = [...text];
  for (let n = random.whole(1, 10); n > 0; n--) bytes[random.whole(0, bytes.length - 1)] = char(random);
  return bytes.join('');
}

/** Makes one or more requests with broken bytes. */
export function broken(random: Random, known: Known): Sent {
  const { bytes, method } = misspoken(random, known);
  const text = bytes.toString('latin1');
  return { bytes: Buffer.from(random.pick(BREAKS)(random, text), 'latin1'), framed: false, method };
}
