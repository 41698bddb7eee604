import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fuzz } from '../../fuzz/fuzz.ts';
import { broken, misspoken, NAMES, ROUTES } from '../../fuzz/grammar.ts';
import { readOptions } from '../../fuzz/options.ts';
import { AnswerReader } from '../../harness/http/answer_reader.ts';
import { Random } from '../../harness/random.ts';
import type { JsonSchema } from '../../src/openapi/openapi.ts';
import { documentOf } from '../openapi/document.ts';

test('malformed requests and slow connections do not affect other clients', async () => {
  const said: string[] = [];
  const verdict = await fuzz(
    { requests: 1500, slow: 300, seed: 1, help: false },
    (text) => void said.push(text),
  );
  assert.ok(verdict.ok, JSON.stringify([verdict.bars, said], null, 2));
  assert.equal(verdict.sent, 1500);
  for (const status of [204, 400, 401, 403, 404, 405, 415, 431])
    assert.ok(verdict.statuses.has(status), `something is answered ${status}`);
});

test('the same seed sends the same', () => {
  const known = { client: 'Basic a', root: 'Basic b' };
  const draw = (seed: string) => {
    const random = new Random(seed);
    return Array.from({ length: 100 }, () => [misspoken(random, known), broken(random, known)]);
  };
  assert.deepEqual(draw('1'), draw('1'));
  assert.notDeepEqual(draw('1'), draw('2'));
  assert.equal(readOptions(['--seed', '7']).seed, 7);
});

test('all calls of the API are made, and all fields of their bodies sent', async () => {
  const { paths, components } = await documentOf();
  const fields: string[] = [];
  for (const [template, calls] of Object.entries(paths))
    for (const [method, { requestBody }] of Object.entries(calls)) {
      const path = new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
      const isMade = ROUTES.some((route) => route[0].toLowerCase() === method && path.test(route[1]));
      assert.ok(isMade, `${method} ${template}`);
      fields.push(...fieldsIn(requestBody, components.schemas));
    }
  for (const known of ['delay', 'callback', 'token']) assert.ok(fields.includes(known), known);
  assert.deepEqual([...new Set(fields).difference(new Set(NAMES))], []);
});

/** Returns the names of all properties in a part of the document, also in the schemas that it refers to. */
function fieldsIn(part: unknown, schemas: Record<string, JsonSchema>): string[] {
  if (typeof part !== 'object' || part === null) return [];
  const { $ref, properties = {} } = part as JsonSchema;
  const referred = $ref && schemas[$ref.replace('#/components/schemas/', '')];
  return [
    ...Object.keys(properties),
    ...[referred, ...Object.values(part)].flatMap((each) => fieldsIn(each, schemas)),
  ];
}

describe('answers are cut', () => {
  const answers = [
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
  ];
  for (const size of [1, 7, 1000]) {
    test(`from pieces of ${size} bytes`, () => {
      const reader = new AnswerReader();
      const bytes = answers.join('');
      const read = [];
      for (let at = 0; at < bytes.length; at += size) read.push(...reader.read(bytes.slice(at, at + size)));
      assert.deepEqual(
        read.map(({ status, closes }) => [status, closes]),
        [
          [204, false],
          [200, false],
          [200, false],
          [400, true],
        ],
      );
    });
  }
});
