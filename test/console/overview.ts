import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decode, encode } from '@msgpack/msgpack';
import { until } from '../../harness/until.ts';
import { STORED } from '../../src/metrics/history.ts';
import { as, bus, root } from './visits.ts';

const says = (pattern: RegExp) => `${pattern}.test(document.querySelector('main').textContent)`;

describe('the overview', () => {
  test('counts the processes that live', async () => {
    const visit = await as(root);
    await visit.until(says(/Processes1 web, 1 worker\b/));
    await bus.start('web');
    const second = await bus.start('worker');
    await visit.until(says(/Processes2 web, 2 workers/));
    await second.kill();
    await visit.until(says(/Processes2 web, 1 worker\b/));
    assert.deepEqual(visit.complaints, []);
  });

  test('says that it cannot count them if the user of Redis lacks PUBSUB', async (t) => {
    const { redis } = bus.store;
    t.after(() => redis.call('ACL', 'SETUSER', 'default', '+pubsub'));
    await redis.call('ACL', 'SETUSER', 'default', '-pubsub');
    const visit = await as(root);
    assert.match(await visit.text('main'), /Processesunknown.*its user lacks PUBSUB/);
    await visit.assertSound();
  });

  test('says why Redis refuses writes, and that publishes are refused', async () => {
    const { redis } = bus.store;
    const visit = await as(root);
    await redis.config('SET', 'min-replicas-to-write', 1);
    await visit.page.reload();
    const text = await visit.text('main');
    await visit.assertSound();
    // What ends a test stores something.
    await redis.config('SET', 'min-replicas-to-write', 0);
    assert.match(text, /Redis refuses writes \(NOREPLICAS\)\. *Publishes are refused, .* Too few replicas/);
  });

  test('says how to begin while there is no subscriber', async () => {
    const { redis, keys } = bus.store;
    const history = keys.history_fine('bus');
    const visit = await as(root);
    assert.doesNotMatch(await visit.text('main'), /Nobody subscribes yet/);
    // The next sample overwrites what is written here.
    await until(async () => {
      const [slot, ...figures] = decode((await redis.lindexBuffer(history, -1)) ?? Buffer.of()) as number[];
      figures[STORED.bus.indexOf('subscribers')] = 0;
      await redis.lset(history, -1, Buffer.from(encode([slot, ...figures])));
      await visit.page.reload();
      return /Nobody subscribes yet/.test(await visit.text('main'));
    });
    await visit.assertSound();
  });

  test('counts for a client only what is its own', async (t) => {
    const client = await bus.client('bystander');
    const rules = {
      sources: [{ topic: 'paid' }, { topic: 'packed' }],
      by: 'url',
      then: { topic: 'ready_too' },
    };
    await client.call('PUT', '/joins/ready', rules);
    const bystander = await as({ user: client.token, password: client.secret });
    assert.match(await bystander.text('main'), /^All is well\..*Dead letters for you0.*The whole bus/);
    assert.doesNotMatch(await bystander.text('main'), /Subscribers/);
    const { keys, redis } = bus.store;
    const lost = keys.dropped(`join:ready:${client.token}`);
    await redis.hset(lost, { batches: 1, events: 5, from: 1, to: 2, last_at: Date.now() });
    await bystander.page.reload();
    assert.match(
      await bystander.text('main'),
      /^5 events of yours were dropped, the last .* Joins have not counted them.*: Your joins\./,
    );
    await bystander.page.goto(`${bus.url}/console/joins`);
    assert.match(await bystander.text('main table'), /Dropped.*ready.*5$/);
    await bystander.page.goto(`${bus.url}/console/joins/ready`);
    assert.match(await bystander.text('main'), /Dropped5 events/);
    await bystander.assertSound();
    await redis.del(lost);
    const { subscriber } = await bus.scene(t);
    await subscriber.call('POST', '/subscriber/pause');
    const own = await as({ user: subscriber.token, password: subscriber.secret });
    assert.match(await own.text('main'), /^Your subscriber is paused\./);
    await own.assertSound();
    const drops = { batches: 1, events: 3, from: 1, to: 2, 'topic:widgets': 3, last_at: Date.now() };
    await redis.hset(keys.dropped(subscriber.token), drops);
    await own.page.reload();
    assert.match(await own.text('main'), /3 events of yours were dropped, the last .* ago\./);
    await redis.del(keys.dropped(subscriber.token));
    await own.page.reload();
    await own.submit('.complaints a');
    assert.ok(own.page.url().endsWith(`/console/subscribers/${subscriber.token}`));
  });

  test('shows how full Redis is, and its marks', async (t) => {
    const { redis } = bus.store;
    t.after(() => redis.config('SET', 'maxmemory', 0));
    await redis.config('SET', 'maxmemory', '30mb');
    const visit = await as(root);
    const { value, ...marks } = await visit.page.$eval('meter', ({ min, max, low, high, value }) => ({
      ...{ min, max, low, high, value },
    }));
    const mib = 1_048_576;
    assert.deepEqual(marks, { min: 0, max: 30 * mib, low: 24 * mib, high: 27 * mib });
    assert.ok(value > 0 && value < 24 * mib);
    assert.match(await visit.text('main'), /When memory is above 27 MiB, .* until it is down to 24 MiB\./);
    for (const scheme of ['dark', 'light'] as const) {
      await visit.show({ width: 360, scheme });
      await visit.assertSound();
    }
  });
});
