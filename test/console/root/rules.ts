import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { as, bus, htmlFor, root, scene, textFor } from '../visits.ts';

describe('root', () => {
  test('comes from a topic to the triggers of its publisher', async () => {
    const visit = await as(root, `/console/topics/${scene.topic}`);
    await visit.submit(`dd a[href="/console/triggers?client=${scene.publisher.token}"]`);
    assert.match(await visit.text('tbody'), /^nightly.*reports/);
    const idle = await bus.client('idle');
    await idle.publish('topic_of_idle', { url: 'https://shop.example.com/7' });
    await visit.page.goto(`${bus.url}/console/topics/topic_of_idle`);
    await visit.submit('dd a[href^="/console/triggers"]');
    assert.match(await visit.text('main'), /This client has no trigger\. Show all\./);
    await bus.root.call('DELETE', '/topics/topic_of_idle');
    await bus.root.call('DELETE', `/api_tokens/${idle.token}`);
  });

  test('sees settings, periods and limits as they were set, without rounding', async () => {
    const client = await bus.client('exact');
    const event = { type: 'noop', url: 'https://shop.example.com/13' };
    await client.call('PUT', '/triggers/exact', { topic: 'exact', event, schedule: { every: 5_400_000 } });
    const sources = [{ topic: 'exact' }, { topic: 'exact_too' }];
    const rules = { sources, by: 'url', then: { topic: 'exact_both' }, within: 90_000 };
    await client.call('PUT', '/joins/exact', rules);
    const settings = { timeout: 1500, max_attempts: 1550, max_age: 129_600_000 };
    const subscription = { topics: ['exact'], callback: scene.receiver.callback, uuid: 'me', ...settings };
    await client.call('POST', '/subscription', subscription);
    for (const [path, shown] of [
      [`triggers/exact?client=${client.token}`, /Whenevery 1 h 30 min/],
      [`joins/exact?client=${client.token}`, /Within1 min 30 s/],
      [`subscribers/${client.token}`, /Waits for more1 s 500 ms.*Max attempts1,550.*1 d 12 h/],
    ] as const)
      assert.match(await textFor(root, `/console/${path}`), shown);
    await bus.root.call('DELETE', `/api_tokens/${client.token}`);
  });

  test('makes and changes a trigger and a join of a client', async () => {
    const client = await bus.client('ruled');
    for (const kind of ['triggers', 'joins'] as const) {
      const visit = await as(root, `/console/${kind}`);
      await visit.page.click('details.wide summary');
      await visit.page.type('[name=client]', client.token);
      await visit.page.type('[name=name]', 'of_root');
      await visit.page.evaluate(`{
        const rules = document.querySelector('[name=rules]');
        rules.value = rules.value.replace('"reports"', '"rooted"').replace('"orders_ready"', '"rooted_too"');
      }`);
      await visit.submit(`form[action="/console/${kind}"] button`);
      assert.ok(visit.page.url().endsWith(`/console/${kind}/of_root?client=${client.token}`));
      await visit.page.evaluate(`document.querySelector('details.wide').open = true`);
      await visit.submit(`form[action="/console/${kind}"] button`);
      assert.equal(await visit.text('h1'), 'of_root');
      await client.call('GET', `/${kind}/of_root`);
      if (kind === 'joins') continue;
      await visit.submit('form[action$="/pause"] button');
      assert.match(await visit.text('main'), /Statepaused/);
      await visit.submit('form[action$="/fire"] button');
      assert.match(await visit.text('main'), /The event was published.*Statepaused/);
    }
  });

  test('sees whose a trigger and a join are', async () => {
    const { publisher, subscriber } = scene;
    for (const [path, { token }] of [
      ['triggers/nightly', publisher],
      ['joins/ready', subscriber],
    ] as const) {
      const page = await textFor(root, `/console/${path}?client=${token}`);
      assert.match(page, new RegExp(`Client${token}`), path);
    }
  });

  test('reads what a name may consist of, where the browser checks it', async () => {
    for (const list of ['clients', 'triggers', 'joins', 'tail']) {
      const [field = ''] = /<input [^>]*pattern=[^>]*>/.exec(await htmlFor(root, `/console/${list}`)) ?? [];
      assert.match(field, / title="a-z, 0-9/, list);
    }
  });
});
