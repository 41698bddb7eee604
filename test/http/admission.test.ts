import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { listenLocally } from '../../harness/processes/ports.ts';
import { until } from '../../harness/until.ts';
import type { BusError } from '../../src/errors.ts';
import { Admission } from '../../src/http/admission.ts';

/** Starts a server that answers admitted requests when it is released, and refuses others at once. */
async function house(t: TestContext, admission: Admission) {
  const under: (() => void)[] = [];
  let clients = 0;
  const server = createServer((request, response) => {
    const work = async () => {
      const reservation = admission.reserve(request, request.url ?? '');
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
  });
  t.after(() => server.close().closeAllConnections());
  const url = `http://127.0.0.1:${await listenLocally(server)}/`;
  return {
    /** Posts as one of many clients, unless `client` says which. */
    post: (body: string | ReadableStream = 'x', client = `${clients++}`) =>
      fetch(url + client, { method: 'POST', body, duplex: 'half' }),
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
  const reservation = admission.reserve(request('8'), 'one');
  assert.deepEqual(
    ['2', '3', '2'].map((length) => admission.hasRoom(request(length))),
    [true, false, true],
  );
  admission.reserve(request('0'), 'other');
  assert.ok(!admission.hasRoom(request('0')));
  reservation.release();
  assert.ok(admission.hasRoom(request('10')));
});

test('a client holds as much as it leaves free for others', () => {
  const request = (length: number) => ({ headers: { 'content-length': `${length}` } }) as never;
  const fill = (admission: Admission, client: string, length: number) => {
    for (let held = 0; ; held++)
      try {
        admission.reserve(request(length), client);
      } catch {
        return held;
      }
  };
  const places = new Admission({ maxRequests: 120 });
  assert.deepEqual(
    ['one', 'two', 'three', 'four'].map((client) => fill(places, client, 0)),
    [60, 30, 15, 8],
  );
  const bytes = new Admission({ maxBytes: 1000 });
  assert.deepEqual(
    ['one', 'two', 'three'].map((client) => fill(bytes, client, 10)),
    [50, 25, 13],
  );
});

test('a body that stalls gives its room back as soon as somebody needs it, with the bytes that have arrived', async () => {
  const request = (length: string) => ({ headers: { 'content-length': length } }) as never;
  const admission = new Admission({ maxBytes: 1_000_000 });
  const begin = (client: string, arrived: number) => {
    const reservation = admission.reserve(request('300000'), client);
    const refusals: BusError[] = [];
    reservation.whenTakenBack((error) => void refusals.push(error));
    reservation.arrived(arrived);
    return { reservation, refusals };
  };
  const stalled = [begin('one', 299_999), begin('two', 1), begin('three', 299_999)];
  const complete = stalled.pop() as (typeof stalled)[number];
  complete.reservation.bodyCompleted();
  assert.throws(() => admission.reserve(request('500000'), 'four'), /try again/);
  await until(() => admission.hasRoom(request('500000')));
  assert.deepEqual(
    stalled.map(({ refusals }) => refusals.map(({ code }) => code)),
    [['overloaded'], ['overloaded']],
  );
  assert.deepEqual(complete.refusals, []);
  assert.ok(admission.hasRoom(request('700000')), 'all they held is free');
  for (const { reservation } of [...stalled, complete]) reservation.release();
  assert.ok(admission.hasRoom(request('1000000')));
});

test('a body without a length that stalls can lose its own room, and leaves nothing behind', async () => {
  const request = (length: string) => ({ headers: { 'content-length': length } }) as never;
  const admission = new Admission({ maxBytes: 1000 });
  const dripping = admission.reserve(request('0'), 'one');
  dripping.arrived(100);
  const other = admission.reserve(request('700'), 'other');
  await until(() => performance.now() - dripping.progressMs > 1000);
  assert.throws(() => dripping.arrived(900), /try again/);
  dripping.release();
  other.release();
  const whole = admission.reserve(request('1'), 'one');
  assert.ok(admission.hasRoom(request('999')), 'all is free');
  whole.release();
});

test('a slow body holds only what has arrived once others need room, and keeps that however long it takes', async () => {
  const request = (length: string) => ({ headers: { 'content-length': length } }) as never;
  const admission = new Admission({ maxBytes: 5_000_000 });
  const slow = admission.reserve(request('5000000'), 'one');
  let isTakenBack = false;
  slow.whenTakenBack(() => {
    isTakenBack = true;
  });
  const beganMs = performance.now();
  let arrived = 0;
  await until(
    () => {
      slow.arrived(70_000);
      arrived += 70_000;
      const isYoung = performance.now() - beganMs < 200;
      if (isYoung) assert.ok(!admission.hasRoom(request('1')));
      return performance.now() - beganMs > 1500;
    },
    { everyMs: 100 },
  );
  assert.ok(admission.hasRoom(request(String(5_000_000 - arrived))));
  assert.ok(!admission.hasRoom(request(String(5_000_001 - arrived))));
  const other = admission.reserve(request(String(5_000_000 - arrived)), 'other');
  assert.throws(() => slow.arrived(1), /try again/, 'there is no room ahead any more');
  other.release();
  slow.arrived(70_000);
  assert.ok(!isTakenBack);
});

test('long bodies of a client are read at a pace, all of them together; short ones, and those of others, are not', () => {
  const request = { headers: {} } as never;
  const admission = new Admission();
  const [one, again, short, other] = ['one', 'one', 'one', 'other'].map((each) =>
    admission.reserve(request, each),
  );
  const mib = 1024 * 1024;
  assert.equal(one?.pauseAfter(7 * mib), 1, 'the shortest pause');
  const pauseMs = again?.pauseAfter(33 * mib) ?? 0;
  assert.ok(pauseMs > 900 && pauseMs <= 1000, `${pauseMs} ms`);
  assert.equal(short?.pauseAfter(60_000), 0);
  assert.equal(other?.pauseAfter(mib), 1);
});
