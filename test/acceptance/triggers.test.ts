import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Client } from '../../harness/http/client.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import type { TriggerReport } from '../../src/flow/triggers/trigger_report.ts';
import { msOf } from '../../src/store/replies.ts';

const EVENT = { type: 'noop', url: 'https://shop.example.com/daily' };

const bus = RunningBus.forTests({
  env: { ROUTEMASTER_CALL_RATE: '0' },
  redis: { appendonly: 'yes', appendfsync: 'always' },
});

/** A client's trigger, by its client. */
class Trigger {
  readonly #client: Client;
  readonly #topic: string;
  readonly #body: Record<string, unknown>;
  readonly name: string;

  constructor(client: Client, topic: string, name: string, body: Record<string, unknown>) {
    this.#client = client;
    this.#topic = topic;
    this.name = name;
    this.#body = { topic, event: EVENT, ...body };
  }

  async put(changes: Record<string, unknown> = {}): Promise<TriggerReport> {
    return (await this.#client.call('PUT', `/triggers/${this.name}`, {
      ...this.#body,
      ...changes,
    })) as TriggerReport;
  }

  async report(): Promise<TriggerReport> {
    return (await this.#client.call('GET', `/triggers/${this.name}`)) as TriggerReport;
  }

  async delete(): Promise<void> {
    await this.#client.call('DELETE', `/triggers/${this.name}`);
  }

  /** Makes the trigger due since this time, as if the bus had been down. */
  async wasDueAt(dueMs: number): Promise<void> {
    const { redis, keys } = bus.partitions.ofTopic(this.#topic);
    const client = this.#client.token;
    // Both are written in one step, because a sweep between them would find a trigger in a wrong place.
    await redis
      .multi()
      .hset(keys.trigger(client, this.name), 'next_at', dueMs)
      .zadd(keys.triggers_due(), dueMs, `${this.name} ${client}`)
      .exec();
  }
}

const nowMs = async () => msOf(await bus.store.redis.time());

const seconds = (fromMs: number, endMs: number) =>
  Array.from({ length: (endMs - fromMs) / 1000 }, (_, i) => fromMs + 1000 * i);

test('a trigger fires at its times, and what is delivered says which one it was', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  const trigger = new Trigger(publisher, topic, 'tick', { schedule: { every: 1000 } });
  const { next_at: firstMs, start } = await trigger.put();
  assert.equal(firstMs, start + 1000);
  await until(() => receiver.events.length >= 3);
  const { fired, last_at: lastMs, missed } = await trigger.report();
  await trigger.delete();
  const due = seconds(firstMs, (lastMs ?? 0) + 1000);
  assert.deepEqual([fired, missed], [due.length, 0]);
  await until(() => receiver.events.length >= due.length);
  const events = receiver.events.map(({ id, t, topic, url }) => ({ id, t, topic, url }));
  for (const [index, at] of due.entries())
    assert.deepEqual(events[index], { id: `tick@${at}`, t: at, topic, url: EVENT.url });
});

test('the scheduler wakes up for a trigger that is due before all others', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  await new Trigger(publisher, topic, 'far', { schedule: { at: (await nowMs()) + 3_600_000 } }).put();
  const at = (await nowMs()) + 300;
  const { next_at } = await new Trigger(publisher, topic, 'soon', { schedule: { at } }).put();
  assert.equal(next_at, at);
  await receiver.delivery(1, { timeoutMs: 5000 });
  assert.ok((await nowMs()) >= at, 'not before its time');
  await until(async () => (await new Trigger(publisher, topic, 'soon', {}).report()).next_at === null);
});

test('a paused trigger does not fire, and catches up when it goes on', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { max: 1000 });
  const body = { schedule: { every: 1000 }, start: 0, catch_up: 'all' };
  const trigger = new Trigger(publisher, topic, 'tick', body);
  await trigger.put({ paused: true });
  const dueMs = Math.floor((await nowMs()) / 1000) * 1000 - 60_000;
  await trigger.wasDueAt(dueMs);
  const { redis, keys } = bus.partitions.ofTopic(topic);
  await redis.zadd(keys.triggers_due(), 'inf', `tick ${publisher.token}`);
  assert.equal((await trigger.report()).next_at, dueMs);
  await trigger.put();
  await until(() => receiver.events.length >= 60);
  await trigger.put({ paused: true });
  const { next_at, fired } = await trigger.report();
  assert.ok(fired >= 60 && (next_at ?? 0) > dueMs + 60_000);
});

describe('after five minutes in which the bus was down', () => {
  for (const catchUp of ['none', 'latest', 'all']) {
    test(`a trigger that catches up ${catchUp} has fired exactly that`, async (t) => {
      const { publisher, topic, receiver } = await bus.scene(t, { max: 1000 });
      const schedule = { cron: '*/2 * * * * *', timezone: 'Europe/London' };
      const trigger = new Trigger(publisher, topic, 'tick', { schedule, start: 0, catch_up: catchUp });
      const worker = bus.process('worker');
      await worker.stop();
      await trigger.put();
      const dueMs = Math.floor((await nowMs()) / 2000) * 2000 - 300_000;
      await trigger.wasDueAt(dueMs);
      await Promise.all([bus.start('worker'), bus.start('worker')]);
      const caughtUp = async () => (await trigger.report()).next_at ?? 0;
      await until(async () => (await caughtUp()) > (await nowMs()));
      await trigger.put({ paused: true });
      const { next_at, fired, missed } = await trigger.report();
      const due = seconds(dueMs, next_at ?? 0).filter((at) => (at - dueMs) % 2000 === 0);
      await until(() => receiver.events.length >= fired);
      assert.equal(fired + missed, due.length);
      const times = receiver.events.map((event) => event.t);
      assert.equal(new Set(times).size, times.length, 'none twice');
      // Times in the last ten seconds may have become due after the worker was back: they fire in any case.
      const caught = times.filter((at) => at < dueMs + 290_000);
      if (catchUp === 'all') assert.deepEqual(times, due);
      else assert.deepEqual(caught, []);
      if (catchUp === 'latest') assert.equal(missed, due.length - times.length);
      await bus.process('worker').stop();
    });
  }
});

test('two workers, one of which is killed again and again, fire each due time once', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { max: 1000 });
  const other = await bus.start('worker');
  const triggers = Array.from(
    { length: 50 },
    (_, i) => new Trigger(publisher, topic, `tick_${i}`, { schedule: { every: 1000 }, catch_up: 'all' }),
  );
  const first = await Promise.all(triggers.map(async (each) => (await each.put()).next_at ?? 0));
  let killed = other;
  for (let i = 0; i < 2; i++) {
    const before = receiver.events.length;
    await until(() => receiver.events.length > before + 40);
    await killed.kill();
    killed = await bus.start('worker');
  }
  const reports = await Promise.all(triggers.map((each) => each.put({ paused: true })));
  // A batch that a killed worker has delivered comes again, so events are counted by their ids.
  const ids = () => new Set(receiver.events.map(({ id }) => id));
  await until(() => ids().size >= reports.reduce((sum, { fired }) => sum + fired, 0));
  const expected = reports.flatMap(({ name, next_at }, i) =>
    seconds(first[i] ?? 0, next_at ?? 0).map((at) => `${name}@${at}`),
  );
  assert.deepEqual([...ids()].sort(), expected.sort());
  assert.equal(
    reports.reduce((sum, { missed }) => sum + missed, 0),
    0,
  );
  await killed.stop();
});

test('Redis may be killed: triggers go on when it is back', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { max: 1000 });
  const trigger = new Trigger(publisher, topic, 'tick', { schedule: { every: 1000 } });
  const { next_at: firstMs } = await trigger.put();
  await until(() => receiver.events.length >= 1);
  await bus.redis.kill();
  await bus.redis.restart();
  const before = receiver.events.length;
  await until(() => receiver.events.length >= before + 2);
  const { next_at } = await until(() => trigger.put({ paused: true }));
  const due = seconds(firstMs ?? 0, next_at ?? 0);
  await until(() => receiver.events.length >= due.length);
  assert.deepEqual([...new Set(receiver.events.map((event) => event.t))], due);
});

test('while memory is short nothing fires; then lateness decides', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t, { max: 1000 });
  const trigger = new Trigger(publisher, topic, 'tick', { schedule: { every: 1000 }, catch_up: 'none' });
  await trigger.put();
  await until(() => receiver.events.length >= 1);
  const { redis } = bus.store;
  await redis.config('SET', 'maxmemory', '1mb');
  const worker = bus.process('worker');
  await until(() =>
    worker.log.some(({ msg, kind }) => /cannot publish what is due/.test(msg) && kind === 'triggers'),
  );
  bus.announceError(/dropping|drop/);
  const { fired } = await trigger.report();
  const dueMs = (await trigger.report()).next_at ?? 0;
  await until(async () => (await nowMs()) > dueMs + 2000);
  assert.equal((await trigger.report()).fired, fired);
  await redis.config('SET', 'maxmemory', '0');
  await until(async () => (await trigger.report()).fired >= fired + 3);
  const times = receiver.events.map((event) => event.t);
  assert.deepEqual(
    times,
    seconds(times[0] ?? 0, (times.at(-1) ?? 0) + 1000),
    'those of the last ten seconds fire',
  );
  await trigger.delete();
});

test('a client that is removed has no triggers any more', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  await new Trigger(publisher, topic, 'tick', { schedule: { every: 1000 } }).put();
  await until(() => receiver.events.length >= 1);
  await bus.root.call('DELETE', `/api_tokens/${publisher.token}`);
  const { length } = receiver.events;
  assert.deepEqual(await bus.root.call('GET', `/triggers?client=${publisher.token}`), []);
  const removedMs = await nowMs();
  await until(async () => (await nowMs()) > removedMs + 1500);
  assert.ok(receiver.events.length <= length + 1, 'one may have been under way');
});

test('figures count what fired, how late, and what was missed', async (t) => {
  const { publisher, topic, receiver } = await bus.scene(t);
  const before = await bus.metric('routemaster_triggers_fired_total');
  const trigger = new Trigger(publisher, topic, 'tick', { schedule: { every: 1000 } });
  await trigger.put();
  await until(() => receiver.events.length >= 2);
  await until(async () => (await bus.metric('routemaster_triggers_fired_total')) >= before + 2);
  assert.ok((await bus.metric('routemaster_triggers_lateness_seconds_count')) >= before + 2);
  assert.ok((await bus.metric('routemaster_triggers', { state: 'waiting' })) >= 1);
  await trigger.delete();
});
