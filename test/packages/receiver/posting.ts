import { createServer, type RequestListener } from 'node:http';
import type { TestContext } from 'node:test';
import { listenLocally } from '../../../harness/processes/ports.ts';
import type { ReceivedEvent } from '../../../packages/receiver/src/index.ts';

export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
export const basic = (uuid: string) => `Basic ${Buffer.from(`${uuid}:x`).toString('base64')}`;
export const event = (topic: string, n: number): ReceivedEvent => ({
  ...{ id: `e${n}`, topic, type: 'update', t: n },
  url: `https://shop.example.com/${topic}/${n}`,
});

export async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  t.after(() => server.close());
  return `http://127.0.0.1:${await listenLocally(server)}/events`;
}

export function post(url: string, body: unknown, headers: Record<string, string> = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return fetch(url, {
    method: 'POST',
    body: text,
    headers: {
      ...{ authorization: basic('me'), 'content-type': 'application/json', connection: 'close' },
      ...{ 'webhook-id': 'batch-1', 'routemaster-attempt': '2', ...headers },
    },
  });
}
