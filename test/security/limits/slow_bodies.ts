import { once } from 'node:events';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { assertWorks } from '../../../harness/http/refusal.ts';
import { until } from '../../../harness/until.ts';
import { api } from './default_api.ts';

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
  [40, 'Content-Length: 5242880', 'announce 200 MiB'],
  [1200, 'Content-Length: 100', 'outnumber the places'],
  [1200, 'Transfer-Encoding: chunked', 'outnumber the places, in chunks'],
] as const) {
  test(`slow bodies do not keep others out when their clients ${what}`, async (t) => {
    await slowBodies(t, count, header);
    await until(() => assertWorks(api).then(() => true), { timeoutMs: 10_000 });
  });
}
