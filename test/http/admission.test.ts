import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { until } from '../../harness/until.ts';
import type { BusError } from '../../src/errors.ts';
import { Admission } from '../../src/http/admission.ts';

/** A server that answers when it is `released`; refusals are answered at once. */
async function house(t: TestContext, admission: Admission) {
  const under: (() => void)[] = [];
  const server = createServer((request, response) => {
    const work = async () => {
      const reservation = admission.reserve(request);
      try {
        for await (const chunk of request) reservation.arrived(chunk.length);
        await new Promise<void>((resolve) => under.push(resolve));
      } finally {
        reservation.release();
      }
    };
    work().then(
      () => response.writeHead(204).end(),
      (error: BusError) => response.writeHead(error.status, error.headers).end(error.code),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close().closeAllConnections());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return {
    post: (body: string | ReadableStream = 'x') => fetch(url, { method: 'POST', body, duplex: 'half' }),
    under: (count: number) => until(() => under.length === count),
    release: () => {
      for (const done of under.splice(0)) done();
    },
  };
}

test('a request beyond the maximum number is refused at once; there is room again when others end', async (t) => {
  const { post, under, release } = await house(t, new Admission({ maxRequests: 2 }));
  const [first, second] = [post(), post()];
  await under(2);
  const refused = await post();
  assert.deepEqual(
    [refused.status, refused.headers.get('retry-after'), await refused.text()],
    [503, '1', 'overloaded'],
  );
  release();
  assert.deepEqual([(await first).status, (await second).status], [204, 204]);
  const third = post();
  await under(1);
  release();
  assert.equal((await third).status, 204);
});

test('a request beyond the maximum bytes is refused; a single request may have any allowed body', async (t) => {
  const { post, under, release } = await house(t, new Admission({ maxBytes: 10 }));
  const large = post('x'.repeat(100));
  await under(1);
  assert.equal((await post('xxx')).status, 503);
  release();
  assert.equal((await large).status, 204);
  const small = [post('xxx'), post('xxx')];
  await under(2);
  assert.equal((await post('xxxxx')).status, 503);
  release();
  assert.deepEqual(
    (await Promise.all(small)).map(({ status }) => status),
    [204, 204],
  );
});

test('a body without a length counts as it arrives', async (t) => {
  const { post, under, release } = await house(t, new Admission({ maxBytes: 10 }));
  const chunked = (text: string) => post(new Blob([text]).stream());
  const small = [chunked('xxx'), chunked('xxx')];
  await under(2);
  assert.equal((await chunked('x'.repeat(100))).status, 503);
  release();
  assert.deepEqual(
    (await Promise.all(small)).map(({ status }) => status),
    [204, 204],
  );
});

test('hasRoom reserves nothing', () => {
  const admission = new Admission({ maxRequests: 2, maxBytes: 10 });
  const request = (length: string) => ({ headers: { 'content-length': length } }) as never;
  assert.ok(admission.hasRoom(request('100')), 'for one alone');
  const reservation = admission.reserve(request('8'));
  assert.deepEqual(
    ['2', '3', '2'].map((length) => admission.hasRoom(request(length))),
    [true, false, true],
  );
  admission.reserve(request('0'));
  assert.ok(!admission.hasRoom(request('0')));
  reservation.release();
  assert.ok(admission.hasRoom(request('10')));
});
