import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Api } from '../../../harness/api.ts';
import { assertWorks } from '../../../harness/refusal.ts';
import { until } from '../../../harness/until.ts';
import { Admission } from '../../../src/http/admission.ts';

const api = new Api({ prepare: assertWorks });
const request = (length = '0') => ({ headers: { 'content-length': length } }) as never;

/** Sends this many requests of a known client, each with one byte of its body and no more. */
async function slowBodies(t: TestContext, count: number, header: string): Promise<void> {
  const authorization = await api.authorization('slow');
  const head = ['POST /topics/slow HTTP/1.1', 'Host: bus', `Authorization: ${authorization}`, header];
  for (let n = 0; n < count; n++) {
    const socket = connect(api.port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.write(`${head.join('\r\n')}\r\n\r\n${header.startsWith('Transfer') ? '1\r\n[\r\n' : '['}`);
  }
}

for (const [count, header, what] of [
  [40, 'Content-Length: 5242880', 'say that they will send 200 MiB'],
  [1200, 'Content-Length: 100', 'are more than there are places'],
  [1200, 'Transfer-Encoding: chunked', 'are more than there are places, in chunks'],
] as const) {
  test(`slow bodies do not keep others out: clients that ${what}`, async (t) => {
    await slowBodies(t, count, header);
    await until(() => assertWorks(api).then(() => true), { timeoutMs: 10_000 });
  });
}

test('a slow request is admitted when its body is complete, if there is room then', async () => {
  const admission = new Admission({ maxRequests: 1, maxBytes: 10 });
  const slow = admission.reserve(request('8'));
  slow.arrived(3);
  assert.ok(!admission.hasRoom(request()), 'not yet slow');
  await sleep(1050);
  const other = admission.reserve(request('7'));
  assert.throws(() => slow.arrived(1), /try again/);
  assert.throws(() => slow.startWork(), /try again/);
  other.release();
  slow.startWork();
  assert.ok(!admission.hasRoom(request()));
  slow.release();
  assert.ok(admission.hasRoom(request('10')));
});
