import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, test } from 'node:test';
import { Bus } from '../../harness/bus.ts';
import { TestStore } from '../../harness/store.ts';
import { until } from '../../harness/until.ts';
import { createLog } from '../../src/log.ts';
import { connectListener } from '../../src/store/connection.ts';
import { keyspace } from '../../src/store/keys.ts';
import { type Wake, Wakeups } from '../../src/store/wakeups.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let connection: ReturnType<typeof connectListener>;
let wakeups: Wakeups;
let heard: Wake[];

function listen(): void {
  heard = [];
  wakeups = new Wakeups(connection, keyspace());
  for (const wake of ['main', 'aux', 'due'] as const) wakeups.on(wake, () => heard.push(wake));
}

beforeEach(async () => {
  await redis.flush();
  connection = connectListener(redis.redis.url, createLog('silent', {}));
});
afterEach(() => wakeups.close());

test('all is taken as announced once it listens, as it may have missed something before', async () => {
  listen();
  await until(() => heard.length === 3);
  assert.deepEqual(heard.sort(), ['aux', 'due', 'main']);
});

test('so it is on a connection that was ready before', async () => {
  await once(connection, 'ready');
  listen();
  await until(() => heard.length === 3);
});

test('listeners hear what they listen for, until they ask no more', async () => {
  listen();
  await until(() => heard.length === 3);
  heard = [];
  let extra = 0;
  const forget = wakeups.on('aux', () => extra++);
  await bus.enqueue('scrub');
  await until(() => heard.includes('aux'));
  assert.deepEqual([heard, extra], [['aux'], 1]);
  forget();
  await bus.enqueue('monitor');
  await until(() => heard.length === 2);
  assert.equal(extra, 1);
});

test('what is announced from the moment that all was taken as announced is heard: there is no gap', async () => {
  for (let i = 0; i < 20; i++) {
    listen();
    let told = false;
    wakeups.on('due', () => {
      // In this very moment somebody, on another connection, puts a job.
      if (!told) redis.store.redis.publish('wake', 'aux').catch(() => {});
      told = true;
    });
    await until(() => heard.filter((wake) => wake === 'aux').length === 2);
    wakeups.close();
    connection = connectListener(redis.redis.url, createLog('silent', {}));
  }
  listen();
});

test('after a cut it listens again, and takes all as announced', async () => {
  listen();
  await until(() => heard.length === 3);
  heard = [];
  await redis.store.redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  await until(() => heard.length >= 3);
  assert.deepEqual([...new Set(heard)].sort(), ['aux', 'due', 'main']);
  heard = [];
  await bus.enqueue('scrub');
  await until(() => heard.includes('aux'));
});
