import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import { basic, send } from '../../harness/http/api.ts';
import { buildAuthentication } from '../../harness/http/authentication.ts';
import { pipelineParts } from '../../harness/http/pipeline.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { createApp } from '../../src/http/app.ts';
import { WorkBudget } from '../../src/http/work_budget.ts';
import { NO_CONTENT, route } from '../../src/routing/route.ts';

const redis = new TestStore();

const busy = (ms: number) => {
  for (const endMs = performance.now() + ms; performance.now() < endMs; );
};

/** Returns the maximum number of items between two other callbacks. */
const longestRun = (heard: readonly unknown[]) => {
  const runs = heard.join().split('other');
  return Math.max(...runs.map((some) => some.split(',').filter(Boolean).length));
};

/** Returns true if a step may start in this turn of the event loop. */
const startsAtOnce = async (budget: WorkBudget) => {
  let isLater = false;
  setImmediate(() => {
    isLater = true;
  });
  await budget.whenFree();
  return !isLater;
};

test('work items that arrive one by one begin at once', async () => {
  const budget = new WorkBudget();
  for (let i = 0; i < 3; i++) {
    assert.ok(await startsAtOnce(budget));
    await turn();
    await turn();
  }
});

test('work beyond the budget of a turn continues in the next turns, in order, and other callbacks run in between', async () => {
  const budget = new WorkBudget(10);
  const heard: (number | string)[] = [];
  const work = async (name: number) => {
    await budget.whenFree();
    busy(4);
    heard.push(name);
  };
  const all = Promise.all(Array.from({ length: 12 }, (_, i) => work(i)));
  let isOver = false;
  const listen = async () => {
    while (!isOver) {
      await turn();
      heard.push('other');
    }
  };
  const others = listen();
  await all;
  isOver = true;
  await others;
  assert.deepEqual(
    heard.filter((each) => each !== 'other'),
    Array.from({ length: 12 }, (_, i) => i),
  );
  const longest = longestRun(heard);
  // Each item takes 4 ms. Between two other callbacks, a budget of 10 ms may be spent twice: three items each time.
  assert.ok(longest <= 6, `${longest} of 4 ms in twice 10: ${heard}`);
  await turn();
  await turn();
  assert.ok(await startsAtOnce(budget), 'all is done');
});

test('owners take turns, however much of one waits', async () => {
  const budget = new WorkBudget(1);
  await budget.whenFree();
  const untilMs = performance.now() + 2;
  while (performance.now() < untilMs); // The budget of this turn of the event loop is spent.
  const heard: string[] = [];
  const work = async (owner: string) => {
    await budget.whenFree(owner);
    heard.push(owner);
  };
  await Promise.all(['many', 'many', 'many', 'many', 'one', 'many', 'other', 'one'].map(work));
  assert.deepEqual(heard, ['many', 'one', 'other', 'many', 'one', 'many', 'many', 'many']);
});

test('calls whose client is found at the same moment share the budget of a turn', async (t) => {
  const clients = new Clients(redis.store, []);
  await clients.register('reader', 'reader');
  const found = Promise.withResolvers<void>();
  const find = async (token: string) => {
    await found.promise;
    return clients.find(token);
  };
  const log = pino({ level: 'silent' });
  const heard: string[] = [];
  const reading = route('GET /slow', ['client'], {
    answers: { 204: null },
    handle: async () => {
      busy(4);
      heard.push('call');
      return NO_CONTENT;
    },
  });
  const authentication = buildAuthentication({
    ...{ rootKey: 'root', clients: new ClientDirectory({ find }), log, store: redis.store },
  });
  const budget = new WorkBudget(10);
  const app = createApp([reading], pipelineParts({ authentication, log, budget }));
  let arrived = 0;
  const server = createServer((request, response) => {
    arrived++;
    app(request, response);
  });
  t.after(() => server.close().closeAllConnections());
  const port = await listenLocally(server);
  const headers = { authorization: basic('reader', '') };
  const answers = Promise.all(Array.from({ length: 12 }, () => send(port, 'GET', '/slow', headers)));
  await until(() => arrived === 12);
  found.resolve();
  while (heard.filter((each) => each === 'call').length < 12) {
    await turn();
    heard.push('other');
  }
  assert.deepEqual(new Set((await answers).map(({ status }) => status)), new Set([204]));
  // Each call takes 4 ms. Between two other callbacks, a budget of 10 ms may be spent twice: three calls each time.
  const longest = longestRun(heard);
  assert.ok(longest <= 6, `${longest} of 4 ms in twice 10: ${heard}`);
});
