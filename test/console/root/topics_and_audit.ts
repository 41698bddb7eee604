import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { until } from '../../../harness/until.ts';
import { as, bus, post, root, scene } from '../visits.ts';

describe('root', () => {
  test('leaves in the audit what its forms were about', async () => {
    const client = await bus.client('audited');
    const visit = await as(root, '/console/clients');
    await visit.page.type('[method=post] [name=name]', 'made_for_audit');
    await visit.submit('main form[method=post][action="/console/clients"] button');
    const { token } = client;
    const made = await visit.text('dd');
    const event = { type: 'noop', url: 'https://shop.example.com/15' };
    const rules = JSON.stringify({ topic: 'audited', event, schedule: { every: 60_000 } });
    assert.equal(await post(root, '/console/triggers', { client: token, name: 'audited', rules }), 303);
    assert.equal(await post(root, '/console/dead_letters/selected', { id: 'none', do: 'purge' }), 404);
    assert.equal(await post(root, '/console/dead_letters/bulk', { subscriber: token, do: 'purge' }), 303);
    const { redis, keys } = bus.store;
    const id = String(await redis.hget(keys.bulk(':root'), 'id'));
    assert.equal(await post(root, '/console/dead_letters/bulk/cancel', { id }), 303);
    const audited = async () => {
      const entries = (await bus.root.call('GET', '/audit?limit=5')) as { action: string; target: string }[];
      return entries.map(({ action, target }) => `${action} ${target}`);
    };
    await until(async () => (await audited())[0]?.startsWith('dead_letters.bulk_cancel'));
    const entries = await audited();
    assert.deepEqual(entries, [
      `dead_letters.bulk_cancel purge of ${token}`,
      `dead_letters.bulk purge of ${token}`,
      'dead_letters.selected purge 1: none',
      `trigger.put audited of ${token}`,
      `client.create ${made}`,
    ]);
    await bus.root.call('DELETE', `/api_tokens/${token}`);
  });

  test('finds in the audit what one client did, by a click on its name', async () => {
    const client = await bus.client('clicked');
    await client.call('PUT', '/triggers/clicked', {
      ...{ topic: 'clicked', schedule: { every: 60_000 } },
      event: { type: 'noop', url: 'https://shop.example.com/16' },
    });
    const visit = await as(root, '/console/audit');
    await visit.submit(`td a[href$="client=${client.token}"]`);
    const rows = await visit.page.$$eval('tbody tr', (all) => all.map(({ textContent }) => textContent));
    assert.equal(rows.length, 1);
    assert.match(rows[0] ?? '', new RegExp(`${client.token}.*trigger.putclickeddone$`));
    await visit.page.goto(`${bus.url}/console/audit`);
    await visit.page.type('.filter [name=target]', client.token);
    await visit.submit('.filter button');
    assert.match(await visit.text('tbody'), new RegExp(`^.*root.*client\\.create${client.token}done$`));
    await bus.root.call('DELETE', `/api_tokens/${client.token}`);
  });

  test('finds the topic that gets most events, by the rates of all topics', async () => {
    const topic = 'flooded_topic';
    const events = Array.from({ length: 500 }, (_, n) => ({
      type: 'noop',
      url: `https://shop.example.com/${n}`,
    }));
    await scene.publisher.call('POST', `/topics/${topic}`, events);
    const visit = await as(root, '/console/topics');
    assert.equal(await visit.text('th a[aria-current]'), 'Topic');
    await visit.submit('th a[href*="sort=rate"]');
    assert.equal(await visit.text('th a[aria-current]'), 'Published');
    // The page refreshes itself. The rate comes when the web process has counted the events, and a worker has sampled.
    const cell = (column: number) =>
      `document.querySelector('tbody td:nth-child(${column})').textContent.trim()`;
    await visit.until(`${cell(1)} === '${topic}' && /^\\d[\\d.]*\\/(s|min)$/.test(${cell(3)})`);
    assert.match(await visit.text('main'), /Rates are as of .*; workers look every ten seconds\./);
    await visit.assertSound();
    await bus.root.call('DELETE', `/topics/${topic}`);
  });

  test('gives a topic to another client', async () => {
    const topic = 'topic_to_give';
    await scene.publisher.publish(topic, { url: 'https://shop.example.com/5' });
    const heir = await bus.client('heir');
    const visit = await as(root, `/console/topics/${topic}`);
    const form = `form[action="/console/topics/${topic}/give"]`;
    const give = async (token: string) => {
      await visit.page.evaluate(`document.querySelector('${form}').closest('details').open = true`);
      await visit.page.type(`${form} [name=client]`, token);
      await visit.submit(`${form} button`);
    };
    await give('nobody');
    assert.match(await visit.text('main'), /no client has this token/);
    await visit.page.goto(`${bus.url}/console/topics/${topic}`);
    await give(heir.token);
    assert.ok((await visit.text('main')).includes(heir.token));
    await heir.publish(topic, { url: 'https://shop.example.com/6' });
    await bus.root.call('DELETE', `/topics/${topic}`);
  });

  test('removes a topic whose name it types, and nothing by a slip', async () => {
    const topic = 'topic_to_remove';
    await scene.publisher.publish(topic, { url: 'https://shop.example.com/4' });
    const visit = await as(root, '/console/topics');
    const form = `form[action="/console/topics/${topic}/remove"]`;
    const remove = async (typed: string) => {
      await visit.page.evaluate(`document.querySelector('${form}').closest('details').open = true`);
      await visit.page.type(`${form} [name=confirm]`, typed);
      await visit.submit(`${form} button`);
    };
    await remove('something_else');
    assert.match(await visit.text('main'), /nothing was changed/);
    await visit.page.goto(`${bus.url}/console/topics`);
    await remove(topic);
    assert.ok(!(await visit.text('main')).includes(topic));
  });
});
