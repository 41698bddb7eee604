import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import { capturedLog } from '../../harness/captured_log.ts';
import { aclRules } from '../../harness/redis/acl.ts';
import { startNode } from '../../harness/redis/cluster_node.ts';
import { PrivateCluster, tagOf } from '../../harness/redis/private_cluster.ts';
import type { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { callRedis } from '../../harness/redis/redis_call.ts';
import { until } from '../../harness/until.ts';
import { refusalOfCommands } from '../../src/console/overview_page.ts';
import { BootError, StorageFull, StorageUnavailable } from '../../src/errors.ts';
import { createLog, failureOf } from '../../src/log.ts';
import { connect, connectOne } from '../../src/store/connection.ts';
import { Listener } from '../../src/store/listener.ts';
import type { Connection } from '../../src/store/master.ts';
import type { Partition } from '../../src/store/partition.ts';
import { fixPartitionCount } from '../../src/store/partition_count.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { countProcesses, showPresence } from '../../src/store/presence.ts';
import type { RedisCluster } from '../../src/store/redis_cluster.ts';
import { addressOf } from '../../src/store/redis_url.ts';
import { slotOfKey } from '../../src/store/tags.ts';
import { Wakeups } from '../../src/store/wakeups.ts';

const silent = createLog('silent', {});

describe('redis+cluster://', () => {
  test('has nodes and credentials', () => {
    assert.deepEqual(addressOf('redis+cluster://one,two:1,[::1]:2'), {
      nodes: [
        { host: 'one', port: 6379 },
        { host: 'two', port: 1 },
        { host: '::1', port: 2 },
      ],
    });
    assert.deepEqual(addressOf('rediss+cluster://bus:p%40ss:word@one:1/'), {
      nodes: [{ host: 'one', port: 1 }],
      username: 'bus',
      password: 'p@ss:word',
    });
  });

  for (const [url, advice] of [
    ['redis+cluster://', /needs nodes of the cluster/],
    ['redis+cluster://one:1,', /node that is no host:port; write host:6379/],
    ['redis+cluster://one:x', /no host:port/],
    ['redis+cluster://one:1/3', /no numbered databases/],
    ['redis+cluster://one:1?db=3', /there are no options/],
    ['redis+cluster://user:secret@@one', /percent-encoded/],
    ['redis+cluster://user@one', /a user without a password/],
  ] as const) {
    test(`${url} is refused, with advice and without the password`, () => {
      assert.throws(
        () => connect(url, silent),
        (error: Error) =>
          error instanceof BootError &&
          advice.test(error.message) &&
          !error.message.includes('secret') &&
          error.message.includes('redis+cluster://user:password@one:6379'),
      );
    });
  }

  test('is refused where one Redis is needed', () => {
    assert.throws(() => connectOne('redis+cluster://one', silent), /that of a cluster/);
  });
});

test('of a node that does not know its address, the log says why nothing can be reached, once', async (t) => {
  const { redis, port } = await startNode({ config: { 'cluster-announce-ip': '""' } });
  const { log, lines } = capturedLog();
  const connection = connect(`redis+cluster://127.0.0.1:${port}`, log);
  t.after(async () => {
    connection.disconnect();
    await redis.stop();
  });
  await callRedis(redis.url, 'CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  const { control } = Partitions.on(connection, {});
  for (let call = 0; call < 3; call++) {
    await assert.rejects(
      control.command((commands) => commands.ping()),
      StorageUnavailable,
    );
    await (connection as RedisCluster).refresh();
  }
  assert.equal(lines.filter(({ reason }) => /cluster-announce-ip/.test(String(reason))).length, 1);
});

describe('a cluster', () => {
  const PARTITIONS = 4;
  const USER = aclRules().join(' ').replace('>PASSWORD', '>password').replace(/&\S+/, '&*wake*');
  const recorded = capturedLog();
  let cluster: PrivateCluster;
  let url: string;
  let connection: Connection;
  let partitions: Partitions;

  aroundTests(
    async () => {
      cluster = await PrivateCluster.start({ config: { user: `routemaster ${USER}` } });
      url = cluster.urlWith('routemaster:password@');
      connection = connect(url, recorded.log);
      partitions = Partitions.on(connection, { partitions: PARTITIONS, log: recorded.log });
      await until(() => Promise.all(partitions.all.map((each) => each.command((redis) => redis.ping()))));
    },
    async () => {
      connection.disconnect();
      await cluster.stop();
    },
  );

  const beat = (partition: Partition) => partition.run('heartbeat', { leaseMs: 1, leases: [] });
  const nodeOf = ({ master }: Partition) =>
    cluster.nodes.find(({ url }) => url.endsWith(`${master.address}`)) as PrivateRedis;

  test('has partitions on all masters, with a hash tag even if there is only one', () => {
    assert.deepEqual(
      partitions.byRedis().map(({ length }) => length),
      [1, 2, 1],
    );
    assert.match(Partitions.on(connection, { prefix: 'shop:' }).control.prefix, /^shop:\{\d+\}:$/);
  });

  test('runs scripts, pipelines, transactions, and commands without a key, on the master of a partition', async () => {
    for (const partition of partitions.all) {
      assert.equal(await partition.run('enqueue', { q: 'aux', job: Buffer.from('a'), leaseMs: 1 }), true);
      const [job, length] = await partition.command((redis, keys) => {
        const list = keys.jobs_instant('aux');
        return Promise.all([redis.lindex(list, 0), redis.pipeline([['llen', list]]).exec()]);
      });
      assert.deepEqual([job, length], ['a', [[null, 1]]]);
      const replies = await partition.command((redis, keys) =>
        redis.multi().set(keys.schema(), '2').get(keys.schema()).exec(),
      );
      assert.deepEqual(replies, [
        [null, 'OK'],
        [null, '2'],
      ]);
      assert.equal(await partition.command((redis) => redis.wait(1, 5000)), 1);
      const info = await partition.command((redis) => redis.info('server'));
      assert.ok(nodeOf(partition).url.endsWith(/^tcp_port:(\d+)/m.exec(info)?.[1] ?? '?'));
    }
  });

  test('gets the functions of each master that lacks them, and scripts by EVALSHA where it refuses functions', async () => {
    await Promise.all(cluster.nodes.map(({ url }) => callRedis(url, 'FUNCTION', 'FLUSH').catch(() => {})));
    await Promise.all(partitions.all.map(beat));
    const { url: master } = nodeOf(partitions.control);
    for (const rule of ['-fcall', '+fcall']) {
      await callRedis(master, 'ACL', 'SETUSER', 'routemaster', rule);
      await beat(Partitions.on(connection, { partitions: PARTITIONS }).control);
    }
    await callRedis(master, 'ACL', 'LOG', 'RESET');
  });

  test('without replicas, errors and log name the partition and its master', async () => {
    const { log, lines } = capturedLog();
    const { control } = Partitions.on(connection, { partitions: PARTITIONS, minReplicas: 2, log });
    await assert.rejects(
      beat(control),
      ({ message, redis }: StorageUnavailable) =>
        message.startsWith('Too few replicas of partition 0 have confirmed it') &&
        redis === control.master.address,
    );
    assert.deepEqual(
      lines.map(({ msg, node }) => [msg, node]),
      [['too few replicas have what is published; publishing is refused', control.master.address]],
    );
  });

  test('has a master that is full named by its address', async () => {
    const { url } = nodeOf(partitions.control);
    await callRedis(url, 'CONFIG', 'SET', 'maxmemory', '1');
    await assert.rejects(
      partitions.control.command((redis, keys) => redis.set(keys.schema(), '2')),
      (error) => error instanceof StorageFull && error.redis === partitions.control.master.address,
    );
    await callRedis(url, 'CONFIG', 'SET', 'maxmemory', '0');
  });

  test('has a master that refuses writes named by its partitions, unless all refuse them', async () => {
    const masters = partitions.byRedis().map(([head]) => nodeOf(head));
    const setMin = (replicas: string, nodes: readonly PrivateRedis[]) =>
      Promise.all(nodes.map(({ url }) => callRedis(url, 'CONFIG', 'SET', 'min-replicas-to-write', replicas)));
    assert.equal(await refusalOfCommands(partitions), undefined);
    await setMin('9', masters.slice(1, 2));
    const [, two] = partitions.byRedis();
    assert.deepEqual(await refusalOfCommands(partitions), { word: 'NOREPLICAS', partitions: two });
    await setMin('9', masters);
    assert.deepEqual(await refusalOfCommands(partitions), { word: 'NOREPLICAS', partitions: undefined });
    await setMin('0', masters);
  });

  test('has the number of its partitions in a slot of its own', async () => {
    const fix = (count: number) =>
      fixPartitionCount(partitions.control, { redisPrefix: 'shop:', partitions: count });
    await fix(1);
    await fix(1);
    await assert.rejects(fix(4), /has 1 partitions/);
  });

  test('counts processes on the master of the control partition', async () => {
    const { control } = partitions;
    const end = showPresence(new Listener(connection), control.keys, 'worker', () => {});
    await until(async () => (await countProcesses(control))?.worker === 1);
    end();
    await until(async () => (await countProcesses(control))?.worker === 0);
  });

  test('tells each partition what its scripts announce, over a connection to each master', async (t) => {
    const listener = new Listener(connection);
    const heard = new Set<Partition>();
    const wakeups = partitions.all.map((partition) => {
      const each = new Wakeups(listener, partition.keys);
      each.on('aux', () => heard.add(partition));
      return each;
    });
    t.after(() => wakeups.map((each) => each.close()));
    await until(() => heard.size === PARTITIONS, { what: 'all count as announced' });
    heard.clear();
    const [first, second] = partitions.all as [Partition, Partition];
    await second.run('enqueue', { q: 'aux', job: Buffer.from('b'), leaseMs: 1 });
    await until(() => heard.size > 0);
    assert.deepEqual([...heard], [second]);
    const listeners = await Promise.all(
      cluster.nodes.map(({ url }) => callRedis(url, 'CLIENT', 'LIST', 'TYPE', 'pubsub')),
    );
    assert.deepEqual(
      listeners.map((list) => String(list).split('id=').length - 1).sort(),
      [0, 0, 0, 1, 1, 1],
    );

    heard.clear();
    const killed = nodeOf(first);
    await killed.kill();
    const fails = (partition: Partition) =>
      beat(partition).then(
        () => false,
        (error) => {
          // A failover may cause no other error: callers wait until this one passes.
          if (error instanceof StorageUnavailable) return true;
          throw error;
        },
      );
    assert.ok(await fails(first));
    assert.ok(!(await fails(second)), 'a partition elsewhere does not notice');
    await until(async () => !(await fails(first)), { what: 'a replica is promoted' });
    await until(() => heard.has(first), { what: 'it listens to the new master' });
    await cluster.rejoins(killed);
    assert.ok(recorded.says(/Redis is away/));
    assert.ok(!recorded.lines.some(({ level }) => Number(level) > 40));
  });

  test('may exchange master and replica: no call fails, and the count of connections grows', async () => {
    const { control } = partitions;
    const before = control.connections;
    let isOver = false;
    const calls = (async () => {
      for (let count = 0; ; count++) {
        await Promise.all([beat(control), control.command((redis, keys) => redis.get(keys.schema()))]);
        if (isOver) return count;
      }
    })();
    const node = nodeOf(control);
    await cluster.failOver(tagOf(control));
    await until(() => nodeOf(control) !== node);
    isOver = true;
    assert.ok((await calls) > 0);
    assert.ok(control.connections > before);
  });

  test('keeps no call waiting for a master that hangs, once one has failed, until it answers again', async () => {
    await cluster.isWhole();
    const { control } = partitions;
    const master = nodeOf(control);
    const both = [master, await cluster.replicaOf(master)];
    const redisOf = () => (connection as RedisCluster).masterOf(slotOfKey(control.prefix));
    for (const node of both) await node.kill('SIGSTOP');
    await assert.rejects(beat(control), StorageUnavailable);
    // While the connection to the master is made anew, calls fail at once.
    const isMadeAnew = async () => {
      await (connection as RedisCluster).refresh();
      assert.throws(redisOf, /no master of slot \d+ answers/);
      return true;
    };
    await until(isMadeAnew, { what: 'a connection is made anew' });
    await assert.rejects(beat(control), StorageUnavailable);
    for (const node of both) await node.kill('SIGCONT');
    await until(() => redisOf().status === 'ready', { what: 'the master answers' });
    await beat(control);
    await cluster.isWhole();
  });

  test('may move a slot key by key: its calls change nothing meanwhile, and go on at the new master', async () => {
    await cluster.isWhole();
    const [moved] = partitions.all.slice(-1) as [Partition];
    const [from, to] = [nodeOf(moved), nodeOf(partitions.control)];
    const slot = String(slotOfKey(moved.prefix));
    const [fromId, toId] = await Promise.all([from, to].map(({ url }) => callRedis(url, 'CLUSTER', 'MYID')));
    await callRedis(to.url, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId));
    await callRedis(from.url, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId));
    // This script call would write keys that exist, and then keys that do not.
    const enqueue = () => moved.run('enqueue', { q: 'aux', job: Buffer.from('c'), leaseMs: 1 });
    const jobs = () => callRedis(from.url, 'LLEN', moved.keys.jobs_instant('aux'));
    const before = await jobs();
    await assert.rejects(enqueue(), StorageUnavailable);
    assert.equal(await jobs(), before);
    await cluster.moveSlot(tagOf(moved), to);
    assert.equal(await enqueue(), true);
    assert.equal(nodeOf(moved), to);
  });

  test('permits all that was done here to the user of docs/operating.md', async () => {
    const logs = await Promise.all(cluster.nodes.map(({ url }) => callRedis(url, 'ACL', 'LOG')));
    assert.deepEqual(logs.flat(), []);
  });

  test('that refuses the password is an error in the log, and the reason of each failure', async (t) => {
    const { log, lines } = capturedLog();
    const refused = connect(cluster.urlWith('routemaster:wrong@'), log);
    t.after(() => refused.disconnect());
    const { control } = Partitions.on(refused, { partitions: PARTITIONS, log });
    await until(() => lines.some(({ level, away }) => level === 50 && /^127.0.0.1:/.test(String(away))));
    const failure = await control
      .command((redis) => redis.ping())
      .then(() => assert.fail('the call succeeded'), failureOf);
    assert.match(failure.reason, /^partition 0 refuses the user or password \(WRONGPASS\): invalid/);
  });
});
