import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import {
  RUBY_EVENT,
  RUBY_EVENT_WITH_DATA,
  RUBY_JOB,
  RUBY_TOKEN,
  writeRubyRedis,
} from '../../harness/redis/ruby_redis.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { NO_OUTBOX, subscribersIn } from '../../harness/subscriptions.ts';
import { Clients } from '../../src/authentication/client.ts';
import { batchBody } from '../../src/delivering/batch.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { createLog } from '../../src/log.ts';
import { prepareStorage, takenOverAtMs } from '../../src/maintenance/schema.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { Topics } from '../../src/subscribing/topic.ts';

const redis = new TestStore();
const silent = createLog('silent', {});
const SETTINGS = { laneLimit: 10, laneLimitMax: 100, leaseMs: 30_000, deliveryLog: 1000 };
const BID = 'vHFAAGBX0UExbPAKqIDl';
const OTHER_BID = 'aaaaaaaaaaaaaaaaaaaB';
const JOBLESS_BID = 'aaaaaaaaaaaaaaaaaaaC';
const LOST_BID = 'aaaaaaaaaaaaaaaaaaaD';

const bus = new Bus(() => redis.store);
const takeOver = () => prepareStorage(redis.store, SETTINGS.leaseMs, silent);
const job = (bid: string) => Buffer.concat([Buffer.from('92a5626174636891b4', 'hex'), Buffer.from(bid)]);

beforeEach(async () => {
  await redis.flush();
  await writeRubyRedis(redis.store.redis);
});

describe('a Redis that the Ruby Routemaster filled', () => {
  test('has the layout of this bus and a schema after the boot', async () => {
    await takeOver();
    await assertConsistent(redis.store);
    assert.equal(await redis.store.redis.get('schema'), '2');
    assert.equal(await redis.store.redis.exists(`batches:${BID}`), 0);
    assert.deepEqual(await redis.store.redis.lrangeBuffer(`batch:${BID}`, 3, 4), [
      RUBY_EVENT,
      RUBY_EVENT_WITH_DATA,
    ]);
  });

  test('is noted as taken over, and stays so', async () => {
    assert.equal(await takenOverAtMs(redis.store), undefined);
    await takeOver();
    assert.ok(await takenOverAtMs(redis.store));
    const noted = await redis.store.redis.get('taken_over');
    assert.ok(Math.abs(Number(noted) - Date.now()) < 60_000);
    await takeOver();
    assert.equal(await redis.store.redis.get('taken_over'), noted);
  });

  test('is noted even if only its clients are left, or only its subscribers', async () => {
    for (const gone of ['api_tokens:by_token', 'subscribers']) {
      await redis.flush();
      await writeRubyRedis(redis.store.redis);
      await redis.store.redis.del(gone);
      await takeOver();
      assert.ok(await takenOverAtMs(redis.store), gone);
    }
  });

  test('is noted again after the way back, although its clients have called and subscribed meanwhile', async () => {
    const { redis: commands, keys } = redis.store;
    await takeOver();
    const tokens = Object.keys(await commands.hgetall(keys.api_tokens()));
    await redis.store.run('note_seen', { tokens });
    for (const token of await commands.smembers(keys.subscribers())) await bus.subscribe(token);
    await commands.del(keys.schema(), keys.taken_over());
    await takeOver();
    assert.ok(await takenOverAtMs(redis.store));
  });

  test('is named in the log, also if it has no batches; an empty one is not', async () => {
    const { log, says } = capturedLog();
    await redis.flush();
    await prepareStorage(redis.store, SETTINGS.leaseMs, log);
    assert.equal(says(/took over/), false);
    await redis.flush();
    await writeRubyRedis(redis.store.redis);
    await redis.store.redis.del('batches:index');
    await prepareStorage(redis.store, SETTINGS.leaseMs, log);
    assert.equal(says(/^took over from the Ruby Routemaster$/), true);
  });

  test('is told from a Redis of this bus that has lost its memory, schema included, while processes ran', async () => {
    await redis.flush();
    await takeOver();
    await redis.flush();
    await bus.subscribe('alice', { topics: ['widgets'] });
    await bus.publishAll('a', ['widgets', 'publisher--42', [RUBY_EVENT]]);
    await new Clients(redis.store, []).register('demo', RUBY_TOKEN);
    await takeOver();
    assert.equal(await takenOverAtMs(redis.store), undefined);
  });

  test('has each batch in its subscriber’s index, by its time of creation', async () => {
    await takeOver();
    const queued = await redis.store.redis.zrange(`batches:index:${RUBY_TOKEN}`, '0', '-1', 'WITHSCORES');
    const expected = [
      BID,
      '1795166913600000',
      OTHER_BID,
      '1795166913700000',
      JOBLESS_BID,
      '1795166913800000',
    ];
    assert.deepEqual(queued, expected);
  });

  test('keeps its jobs, and gets one that is due at once for a batch without a job', async () => {
    await takeOver();
    const { redis: commands } = redis.store;
    assert.deepEqual(await commands.lrangeBuffer('jobs:instant:main', 0, -1), [RUBY_JOB]);
    const scheduled = await commands.zrangeBuffer('jobs:scheduled:main', '0', '-1');
    assert.deepEqual(scheduled.map(String).sort(), [job(OTHER_BID), job(JOBLESS_BID)].map(String).sort());
    assert.equal(await commands.zscore('jobs:scheduled:main', job(OTHER_BID)), '1795166999999');
    const [seconds] = await commands.time();
    const due = Number(await commands.zscore('jobs:scheduled:main', job(JOBLESS_BID)));
    assert.ok(Math.abs(due - Number(seconds) * 1000) < 10_000);
  });

  test('loses index entries whose batch is gone', async () => {
    await takeOver();
    assert.equal(await redis.store.redis.zscore('batches:index', LOST_BID), null);
  });

  test('loses its aux jobs, since tickers create new ones', async () => {
    await takeOver();
    assert.deepEqual(await redis.store.redis.keys('jobs:*:aux*'), []);
  });

  test('delivers the oldest batch with its events', async () => {
    await takeOver();
    const { grants } = await new Queue(redis.store, 'main', SETTINGS).acquire(['w1']);
    const [grant] = grants;
    assert.equal(grant?.batch?.bid, BID);
    // Two attempts before the takeover count as one, and this is the second.
    assert.equal(grant?.batch?.attempts, 2);
    const callback = 'https://s.example/';
    assert.deepEqual(grant?.subscriber, { callback, uuid: 'hello', subscribedAt: '0', healthPoints: 96 });
    assert.equal(
      String(batchBody(grant.batch.pieces)),
      '[{"id":"Sm-vP7v_ci4UICAV","topic":"widgets","type":"create","url":"https://a.example.com/w/1","t":1795166913608},' +
        '{"id":"Kn_d7nmm9O-G6fvK","topic":"widgets","type":"update","url":"https://a.example.com/w/1","t":1795166913612,' +
        '"data":{"color":"teal","n":1,"f":1.5,"z":null,"b":true}}]',
    );
  });

  test('keeps topics, subscribers, clients and counters unchanged', async () => {
    const before = await snapshot(redis.store);
    await takeOver();
    const after = await snapshot(redis.store);
    for (const key of [
      'api_tokens:by_token',
      'counters',
      'topics',
      'topic:widgets',
      `subscriber:${RUBY_TOKEN}`,
    ]) {
      assert.equal(after[key], before[key], key);
    }
    assert.deepEqual(await new Topics(new Partitions(redis.store), NO_OUTBOX).list(), [
      { name: 'widgets', publisher: 'publisher--42', events: 41, delayed: 0, dropped: null },
    ]);
    const [report] = await subscribersIn(new Partitions(redis.store)).list();
    assert.deepEqual([report?.topics, report?.events.queued], [['widgets'], 4]);
    const client = await new Clients(redis.store, []).find(RUBY_TOKEN);
    assert.deepEqual(client, { token: RUBY_TOKEN, name: 'demo', ha1: null });
  });

  test('is unchanged by a second takeover', async () => {
    await takeOver();
    const once = await snapshot(redis.store);
    await takeOver();
    assert.deepEqual(await snapshot(redis.store), once);
    await redis.store.redis.del('schema');
    await takeOver();
    assert.deepEqual(await snapshot(redis.store), once);
  });

  test('is taken over once, even by several processes at a time', async () => {
    await Promise.all([takeOver(), takeOver(), takeOver()]);
    await assertConsistent(redis.store);
    assert.equal(await redis.store.redis.zcard('batches:index'), 3);
  });

  test('has no current batch, to which a Ruby web process would append', async () => {
    await redis.store.redis.sadd(`batches:current:${RUBY_TOKEN}`, BID, JOBLESS_BID);
    await takeOver();
    await bus.publishAll('a', ['widgets', 'publisher--42', [RUBY_EVENT]]);
    assert.equal(await redis.store.redis.exists(`batches:current:${RUBY_TOKEN}`), 0);
    assert.deepEqual(await redis.store.redis.hgetall('batches:open'), { [RUBY_TOKEN]: longName('a1') });
    await assertConsistent(redis.store);
  });

  test('with more batches than one call handles is taken over whole', async () => {
    const pipeline = redis.store.redis.pipeline();
    for (let i = 0; i < 300; i++) {
      const bid = `many${i}`.padEnd(20, '_');
      pipeline.rpush(`batches:${bid}`, RUBY_TOKEN, 1_795_166_914_000 + i, 0, RUBY_EVENT);
      pipeline.zadd('batches:index', 1_795_166_914_000 + i, bid);
    }
    pipeline.hset('batches:gauges:event', RUBY_TOKEN, 304).hset('batches:gauges:batch', RUBY_TOKEN, 303);
    await pipeline.exec();
    await takeOver();
    await assertConsistent(redis.store);
    assert.equal(await redis.store.redis.zcard(`batches:index:${RUBY_TOKEN}`), 303);
  });
});
