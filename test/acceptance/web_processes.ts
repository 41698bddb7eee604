import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runs } from '../../harness/processes/processes.ts';
import { until } from '../../harness/until.ts';
import { SteadyPublisher } from './steady_publisher.ts';
import { bus } from './two_webs_bus.ts';

const url = (n: number) => `https://shop.example.com/widgets/${n}`;

/** Returns the pids of the web processes that have begun to listen. */
function listening(): number[] {
  const lines = bus.process('web').log.filter(({ msg }) => msg === 'listening');
  return lines.map(({ pid }) => Number(pid));
}

/** Resolves with true if all processes answer. Connections go to them in turns: each gets some of ten. */
async function allWork(): Promise<boolean> {
  if (listening().length < 2) return false;
  await Promise.all(Array.from({ length: 10 }, () => bus.root.call('GET', '/pulse')));
  return true;
}

test('two web processes share a port and lose no accepted event', async (t) => {
  await until(allWork);
  const { publisher, topic, receiver } = await bus.scene(t, { timeout: 50, max: 100 });
  const urls = Array.from({ length: 300 }, (_, n) => url(n));
  await Promise.all(urls.map((each) => publisher.publish(topic, { url: each })));
  await until(() => receiver.events.length === urls.length);
  assert.deepEqual(receiver.urls.sort(), urls.sort());
});

test('a killed web process is replaced, the other continues, and every accepted event arrives', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { timeout: 20, max: 10 });
  bus.announceError(/^a web process died$/);
  const ledgers = ['a', 'b', 'c'].map((name) => new SteadyPublisher(t, publisher, topic, name));
  await Promise.all(ledgers.map((each) => each.accepts(20)));
  process.kill(Number(listening()[0]), 'SIGKILL');
  assert.equal((await bus.process('web').logs('a web process died')).signal, 'SIGKILL');
  // A publisher may hang until its client gives up, if its connection was on its way to the process that died.
  await Promise.any(ledgers.map((each) => each.accepts(50)));
  await until(() => listening().length === 3);
  await until(allWork);
  await Promise.all(ledgers.map((each) => each.stop()));
  const accepted = ledgers.flatMap((each) => each.accepted);
  await until(() => receiver.missing(accepted).length === 0);
});

test('a web process that cannot be replaced, as the data has a newer layout now, does not end the other', async () => {
  await until(allWork);
  bus.announceError(/^a web process died$|layout 99/);
  const { redis, keys } = bus.store;
  const web = bus.process('web');
  const before = listening();
  await redis.set(keys.schema(), 99);
  process.kill(Number(before.at(-1)), 'SIGKILL');
  await until(() => web.log.filter(({ msg }) => /layout 99/.test(msg)).length === 2, { what: 'two tries' });
  await bus.root.call('GET', '/pulse');
  await redis.set(keys.schema(), 2);
  await until(() => listening().length === before.length + 1);
  await until(allWork);
});

test('web that stops under load answers every request that it has begun, and exits with 0', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { timeout: 20, max: 10 });
  const ledgers = ['a', 'b', 'c'].map((name) => new SteadyPublisher(t, publisher, topic, name));
  await Promise.all(ledgers.map((each) => each.accepts(20)));
  const [primary, servers] = [bus.process('web'), listening()];
  assert.deepEqual(await primary.stop(), { code: 0, signal: null });
  assert.ok(!servers.some(runs));
  await Promise.all(ledgers.map((each) => each.stop()));
  const accepted = ledgers.flatMap((each) => each.accepted);
  await until(() => receiver.missing(accepted).length === 0);
  await bus.start('web');
});
