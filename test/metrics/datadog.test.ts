import assert from 'node:assert/strict';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { beforeEach, describe, test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { packField } from '../../src/metrics/counter_hash.ts';
import { Datadog, datagrams, noteReported, readReported, statsdLine } from '../../src/metrics/datadog.ts';
import type { CounterFigure, Figure } from '../../src/metrics/figures.ts';
import type { Arguments } from '../../src/store/contracts.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
let socket: Socket;
let received: string[] = [];

aroundTests(
  async () => {
    socket = createSocket('udp4').bind(0, '127.0.0.1');
    socket.on('message', (message) => received.push(String(message)));
    await once(socket, 'listening');
  },
  () => socket.close(),
);
beforeEach(async () => {
  received = [];
  await redis.flush();
});

const agent = () => ({ host: '127.0.0.1', port: socket.address().port });
const partitions = () => new Partitions(redis.store);
const worker = () => new Datadog(agent(), partitions());

const published = (value: number, topic = 'widgets'): CounterFigure => ({
  kind: 'counter',
  name: 'events.published',
  value,
  tags: { topic },
  field: packField('events.published', { topic }),
  partition: redis.store,
});

/** Sends figures. Resolves with the lines that arrived before the gauge `workers.count:<mark>`, which is sent last. */
async function lines(sender: Datadog, figures: Figure[]): Promise<string[]> {
  const mark = Math.random();
  const gauge: Figure = { kind: 'gauge', name: 'workers.count', value: mark, tags: {} };
  await sender.send(async () => [...figures, gauge]);
  const end = `routemaster.workers.count:${mark}|g`;
  await until(() => received.join('\n').endsWith(end));
  const all = received.join('\n').split('\n').slice(0, -1);
  received = [];
  return all;
}

describe('a line', () => {
  test('has name, value, type and tags', () => {
    assert.equal(
      statsdLine('jobs.count', 3, 'g', { queue: 'main', status: 'instant' }),
      'routemaster.jobs.count:3|g|#queue:main,status:instant',
    );
    assert.equal(statsdLine('workers.count', 0.5, 'g', {}), 'routemaster.workers.count:0.5|g');
  });

  test('is not broken by special characters in a tag', () => {
    const line = statsdLine('a', 1, 'c', { topic: 'x|y,z#\nroutemaster.b:1|c\u0000', long: 'l'.repeat(500) });
    assert.equal(line, `routemaster.a:1|c|#topic:x_y_z__routemaster.b:1_c_,long:${'l'.repeat(195)}`);
  });
});

test('lines go in datagrams of at most 1432 bytes, whole and in order', () => {
  const all = Array.from({ length: 500 }, (_, i) => `routemaster.a:${i}|g|#t:${'é'.repeat(i % 90)}`);
  const packed = datagrams(all);
  assert.ok(packed.every(({ length }) => length <= 1432));
  assert.ok(packed.slice(0, -1).every(({ length }) => length > 1432 - 220));
  assert.deepEqual(packed.join('\n').split('\n'), all);
  assert.deepEqual(datagrams([]), []);
  assert.deepEqual(datagrams(['a'.repeat(1432)]).length, 1);
  assert.deepEqual(datagrams(['a'.repeat(716), 'b'.repeat(715)]).length, 1);
  assert.deepEqual(datagrams(['a'.repeat(716), 'b'.repeat(716)]).length, 2);
  assert.deepEqual(datagrams(['a'.repeat(2000), 'b']).length, 2);
});

describe('counters', () => {
  test('are sent as their growth since the last report, by any worker', async () => {
    const one = worker();
    assert.deepEqual(await lines(one, [published(5)]), ['routemaster.events.published:5|c|#topic:widgets']);
    assert.deepEqual(await lines(one, [published(5)]), []);
    assert.deepEqual(await lines(worker(), [published(12), published(1, 'gadgets')]), [
      'routemaster.events.published:7|c|#topic:widgets',
      'routemaster.events.published:1|c|#topic:gadgets',
    ]);
    assert.deepEqual(await lines(one, [published(12), published(2, 'gadgets')]), [
      'routemaster.events.published:1|c|#topic:gadgets',
    ]);
  });

  test('are not sent again if a public name in their tags changes', async () => {
    await lines(worker(), [published(5)]);
    assert.deepEqual(await lines(worker(), [{ ...published(5), tags: { topic: 'other' } }]), []);
  });

  test('that were reset are sent from 0', async () => {
    await lines(worker(), [published(50)]);
    assert.deepEqual(await lines(worker(), [published(3)]), [
      'routemaster.events.published:3|c|#topic:widgets',
    ]);
    assert.deepEqual(await lines(worker(), [published(4)]), [
      'routemaster.events.published:1|c|#topic:widgets',
    ]);
  });

  test('of all removed topics are not sent from 0 while they lack counts that were sent', async () => {
    await lines(worker(), [published(50, '(removed)')]);
    assert.deepEqual(await lines(worker(), [published(43, '(removed)')]), []);
    assert.deepEqual(await lines(worker(), [published(52, '(removed)')]), [
      'routemaster.events.published:2|c|#topic:(removed)',
    ]);
  });

  test('that were sent but not noted are noted the next time, and not sent again', async () => {
    let away = true;
    const partition = {
      command: (ask: Parameters<Partition['command']>[0]) => redis.store.command(ask),
      scan: (next: Parameters<Partition['scan']>[0]) => redis.store.scan(next),
      run: async (_: 'report', args: Arguments<'report'>) => {
        if (away) throw new Error('Redis is away');
        return redis.store.run('report', args);
      },
    } as Partition;
    const flaky = new Datadog(agent(), new Partitions(partition));
    await assert.rejects(
      flaky.send(async () => [{ ...published(5), partition }]),
      /away/,
    );
    await until(() => received.length === 1);
    received = [];
    away = false;
    assert.deepEqual(await lines(flaky, [{ ...published(7), partition }]), [
      'routemaster.events.published:2|c|#topic:widgets',
    ]);
  });

  test('that could not be sent are sent with the next report', async () => {
    const nowhere = new Datadog({ host: 'no-such-host.invalid', port: 1 }, partitions());
    await assert.rejects(
      nowhere.send(async () => [published(5)]),
      { syscall: 'getaddrinfo' },
    );
    assert.deepEqual(await lines(worker(), [published(7)]), [
      'routemaster.events.published:7|c|#topic:widgets',
    ]);
  });
});

describe('noting what was reported', () => {
  const field = packField('events.published', { topic: 'widgets' });
  const noted = async () => (await readReported(redis.store))(field);

  test('is idempotent', async () => {
    await noteReported(redis.store, [{ field, from: 0, to: 5 }]);
    await noteReported(redis.store, [{ field, from: 5, to: 9 }]);
    await noteReported(redis.store, [{ field, from: 0, to: 5 }]);
    assert.equal(await noted(), 9);
  });

  test('handles thousands of counters', async () => {
    const all = Array.from({ length: 5001 }, (_, i) => packField('events.bytes', { topic: `t${i}` }));
    await noteReported(
      redis.store,
      all.map((each, i) => ({ field: each, from: 0, to: i + 1 })),
    );
    const read = await readReported(redis.store);
    assert.ok(all.every((each, i) => read(each) === i + 1));
  });
});
