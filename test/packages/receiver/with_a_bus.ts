import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import { type TestContext, test } from 'node:test';
import express from 'express';
import { fastify } from 'fastify';
import type { Client } from '../../../harness/http/client.ts';
import { listenLocally } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { createReceiver, MemoryStore, type Receiver } from '../../../packages/receiver/src/index.ts';
import { bus } from '../default_bus.ts';

/** Mounts a receiver on a server. Resolves with the URL of the callback. */
type Mount = (t: TestContext, receiver: Receiver) => Promise<string>;

async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${await listenLocally(server)}/events`;
}

const NOBODY = 'http://127.0.0.1:1/none';

async function subscribe(subscriber: Client, subscription: object): Promise<Record<string, string>> {
  return (await subscriber.call('POST', '/subscription', subscription)) as Record<string, string>;
}

const MOUNTS: Record<string, Mount> = {
  'node:http': (t, receiver) => listen(t, receiver.node()),
  Express: (t, receiver) => listen(t, express().post('/events', receiver.express()).use(express.json())),
  async Fastify(t, receiver) {
    const app = fastify({ forceCloseConnections: true });
    app.post('/other', async ({ body }) => body);
    await app.register(receiver.fastify(), { prefix: '/events' });
    t.after(() => app.close());
    // The receiver must not change how other routes read their bodies.
    const other = await app.inject({ method: 'POST', url: '/other', payload: { parsed: true } });
    assert.deepEqual(other.json(), { parsed: true });
    assert.equal((await app.inject({ method: 'GET', url: '/events' })).statusCode, 404);
    return `${await app.listen({ port: 0, host: '127.0.0.1' })}/events`;
  },
  fetch: (t, receiver) =>
    listen(t, async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const headers = Object.entries(request.headers) as [string, string][];
      const body = Buffer.concat(chunks);
      const answer = await receiver.fetch(new Request('http://me/events', { method: 'POST', headers, body }));
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
    }),
};

for (const [name, mount] of Object.entries(MOUNTS)) {
  for (const signing of [true, 'ed25519'] as const) {
    test(`${name} receives what a bus signs by ${signing === true ? 'a secret' : signing}`, async (t) => {
      const topic = `topic_${name.toLowerCase().replace(/\W/g, '_')}_${signing}`;
      const [publisher, subscriber] = [await bus.client('publisher'), await bus.client('subscriber')];
      const received: string[] = [];
      let failures = 2;
      const subscription = { topics: [topic], uuid: 'me', timeout: 0, max: 2 };
      // A receiver needs the secret, which the bus makes when somebody subscribes.
      const keys = await subscribe(subscriber, {
        ...subscription,
        callback: NOBODY,
        signing_secret: signing,
      });
      const receiver = createReceiver({
        ...{ uuid: 'me', signingSecret: keys.signing_secret ?? keys.public_key ?? '' },
        ...{ store: new MemoryStore(), onError: () => {} },
        on: {
          [topic]: (events) => {
            if (failures-- > 0) throw new Error('not yet');
            received.push(...events.map(({ url }) => url));
          },
        },
      });
      await subscribe(subscriber, { ...subscription, callback: await mount(t, receiver) });
      const urls = [1, 2, 3].map((n) => `https://shop.example.com/${topic}/${n}`);
      await publisher.publish(
        topic,
        urls.map((url) => ({ url })),
      );
      await until(() => received.length >= urls.length, { what: 'all events are received' });
      assert.deepEqual(received.toSorted(), urls);
      await until(async () => (await subscriber.report()).events.queued === 0);
    });
  }
}
