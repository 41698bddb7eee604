import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { beforeEach, type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { basic, problemIn, send } from '../../harness/http/api.ts';
import { buildAuthentication } from '../../harness/http/authentication.ts';
import { pipelineParts } from '../../harness/http/pipeline.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { publishingParts } from '../../harness/publishing.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { DELAY_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { clock } from '../../src/clock.ts';
import { createApp } from '../../src/http/app.ts';
import { publishApi } from '../../src/publishing/publish_api.ts';
import { Publisher } from '../../src/publishing/publisher.ts';
import { DIALECTS } from '../../src/routing/dialect.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { RedisTimes } from '../../src/store/redis_times.ts';

const redis = new TestStore();
const LONG = `[${Array(1000).fill('{"type":"noop","url":"https://app.example.com/1","data":"some more"}').join()}]`;

beforeEach(() => redis.flush());

/** Starts a web whose long bodies wait for their turn until `goOn`. */
async function slowWeb(t: TestContext) {
  const clients = new Clients(redis.store, []);
  await clients.register('pub', 'pub');
  let aheadMs = 0;
  t.mock.method(clock, 'monotonicMs', () => performance.now() + aheadMs);
  const turns = Promise.withResolvers<void>();
  let waiting = 0;
  const log = pino({ level: 'silent' });
  const directory = new ClientDirectory(clients);
  const authentication = buildAuthentication({
    ...{ rootKey: 'root', clients: directory, log, store: redis.store },
  });
  const partitions = new Partitions(redis.store);
  const routes = publishApi({
    ...{ partitions, times: new RedisTimes() },
    ...{ dialect: DIALECTS.none, guard: { checkTopic: () => undefined } },
    publisher: new Publisher(publishingParts(partitions)),
    delaying: { publish: () => Promise.reject(new Error('no event has a time')) },
    limits: { ...DELAY_LIMITS, maxEventDataBytes: 65_536 },
    budget: {
      whenFree: () => {
        waiting++;
        return turns.promise;
      },
    },
  });
  const app = createApp(routes, pipelineParts({ authentication, log }));
  const server = createServer(app);
  t.after(() => server.close().closeAllConnections());
  const port = await listenLocally(server);
  return {
    clients,
    /** Publishes a long body. Resolves when it waits for its turn, with a function that resolves with the answer. */
    publish: async () => {
      const before = waiting;
      const answer = send(port, 'POST', '/topics/widgets', { authorization: basic('pub', '') }, LONG);
      await until(() => waiting > before);
      return () => answer;
    },
    laterThanCached: () => {
      aheadMs += 1001;
    },
    goOn: () => turns.resolve(),
  };
}

test('a long publish that waited is judged again before it is stored', async (t) => {
  const web = await slowWeb(t);
  const answer = await web.publish();
  await web.clients.remove('pub');
  web.laterThanCached();
  web.goOn();
  assert.equal(problemIn(await answer()).code, 'unauthenticated');
  assert.equal(await redis.store.redis.exists(redis.store.keys.topic('widgets')), 0);
});

test('a long publish of a client that was limited meanwhile is refused', async (t) => {
  const web = await slowWeb(t);
  const answer = await web.publish();
  await web.clients.register('pub', 'pub', { publish: ['gadgets'] });
  web.laterThanCached();
  web.goOn();
  assert.equal(problemIn(await answer()).code, 'forbidden');
});

test('a long publish of a client that still may is stored', async (t) => {
  const web = await slowWeb(t);
  const answer = await web.publish();
  web.laterThanCached();
  web.goOn();
  assert.equal((await answer()).status, 204);
  assert.equal(await redis.store.redis.hget(redis.store.keys.topic('widgets'), 'counter'), '1000');
});
