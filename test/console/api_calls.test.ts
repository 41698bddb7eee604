import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { ApiCalls, chargeOf, type PageCall } from '../../src/console/api_calls.ts';
import { BATCH_ENDING } from '../../src/console/batch_parts.ts';
import { ALL, ok, route } from '../../src/routing/route.ts';

const PIECES = 1000;
const EVENT = JSON.stringify({ data: 'x'.repeat(10_000) });

/** Returns an API that answers `GET /long` in pieces, as long answers are. `read` tells how many pieces were read. */
function answering(first: string, last: string) {
  let read = 0;
  async function* pieces() {
    for (; read < PIECES; read++) yield (read === 0 ? first : ',') + EVENT;
    yield last;
  }
  const handle = async () => ({ ...ok(pieces()), priceInCalls: 3 });
  const api = new ApiCalls(
    [route('GET /long', ALL, { answers: { 200: z.unknown() }, handle })],
    async () => 0,
  );
  return { api, read: () => read };
}

const visit = () => ({ caller: { role: 'viewer' }, headers: {} }) as unknown as PageCall;

test('a page reads the beginning of a long batch alone', async () => {
  const { api, read } = answering('{"id":"b","events":[', '],"bytes":1,"topics":null}');
  const { body } = await api.call<{ events: unknown[] }>('GET /long', visit(), { ending: BATCH_ENDING });
  assert.ok(read() < 20, `${read()} pieces were read`);
  assert.equal(body.events.length, read());
});

test('a page keeps what it needs of each entry of a long listing', async () => {
  const { api } = answering('[', ']');
  const { body } = await api.call<number[]>('GET /long', visit(), {
    keep: ({ data }: { data: string }) => data.length,
  });
  assert.deepEqual(new Set(body), new Set([10_000]));
  assert.equal(body.length, PIECES);
});

test('a page shows numbers of 64 bits with their digits', async () => {
  const letter = '{"events":[{"data":12345678901234567890}]}';
  async function* pieces() {
    yield letter;
  }
  const handle = async () => ({ ...ok(pieces()), priceInCalls: 0 });
  const api = new ApiCalls(
    [route('GET /letter', ALL, { answers: { 200: z.unknown() }, handle })],
    async () => 0,
  );
  const { body } = await api.call('GET /letter', visit());
  assert.equal(JSON.stringify(body), letter);
});

test('a page costs its visitor what its calls of the API do', async () => {
  const { api } = answering('[', ']');
  const visitor = visit();
  await api.call('GET /long', visitor);
  assert.ok(chargeOf(visitor) > 3 + (PIECES * EVENT.length) / 16_384, `${chargeOf(visitor)}`);
});
