import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { until } from '../../../harness/until.ts';
import { as, bus, htmlFor, root, scene, send, shared } from '../visits.ts';

describe('root', () => {
  test('limits a client, and sees when it called last', async () => {
    const client = await bus.client('limited_here');
    await client.publish('by_limited', { url: 'https://shop.example.com/3' });
    const path = `/console/clients/${client.token}/limit`;
    const visit = await as(root, '/console/clients');
    const limit = async (publish: string, subscribe: string) => {
      await visit.page.evaluate(`{
        const form = document.querySelector('form[action="${path}"]');
        form.closest('details').open = true;
        form.elements.publish.value = '${publish}';
        form.elements.subscribe.value = '${subscribe}';
      }`);
      await visit.submit(`form[action="${path}"] button`);
    };
    await limit('orders, shop_*', '-');
    assert.match(await visit.text('main'), /limited_here\S+orders, shop_\*none[\d.]+ \w+ ago/);
    const read = () =>
      visit.page.evaluate(`document.querySelector('form[action="${path}"]').elements.subscribe.value`);
    assert.equal(await read(), '-');
    await until(() =>
      client.publish('by_limited', { url: 'https://shop.example.com/3' }).then(
        () => false,
        () => true,
      ),
    );
    await limit('', '');
    await until(async () => {
      await visit.page.goto(`${bus.url}/console/clients`);
      return /limited_here\S+any topicany topic[\d.]+ \w+ ago[\d.]+ \w+ ago/.test(await visit.text('main'));
    });
  });

  test('opens the forms of a client inside a narrow window', async () => {
    await bus.client('narrow');
    const visit = await as(root, '/console/clients', { width: 390 });
    const right = await visit.page.evaluate(`{
      document.querySelector('.scroll').scrollLeft = 10_000;
      const form = document.querySelector('td details');
      form.open = true;
      form.querySelector('.card').getBoundingClientRect().right;
    }`);
    assert.ok(Number(right) <= 390, `it ends at ${right}`);
  });

  test('gets from a client to its subscriber, if it has one', async () => {
    const { token } = await bus.client('subscribes_to_nothing');
    const visit = await as(root, '/console/clients');
    assert.match(await visit.text('main'), new RegExp(token));
    assert.equal(await visit.page.$(`td a[href="/console/subscribers/${token}"]`), null);
    await visit.submit(`td a[href="/console/subscribers/${scene.subscriber.token}"]`);
    assert.equal(await visit.text('h1'), scene.subscriber.token);
  });

  test('makes a client, and sees its secret once', async () => {
    const visit = await as(root, '/console/clients');
    await visit.page.type('[method=post] [name=name]', 'made_here');
    await visit.submit('main form[method=post][action="/console/clients"] button');
    const secret = await visit.text('dd:last-of-type');
    const token = await visit.text('dd');
    assert.match(token, /^made_here--/);
    await bus.clientOf(token, secret).publish('by_made_here', { url: 'https://shop.example.com/3' });
    await visit.submit('a.button');
    assert.ok(!(await visit.text('main')).includes(secret));
  });

  test('opens the forms of a client inside its table, however wide its row is', async () => {
    const { token } = await bus.client('a_warehouse_of_the_north_east');
    const patterns = ['orders_of_the_north', 'warehouse_east_*'];
    await bus.root.call('PUT', `/api_tokens/${token}`, { publish: patterns, subscribe: patterns });
    const visit = await as(root, '/console/clients', { width: 1440 });
    const beyond = await visit.page.evaluate(`{
      const forms = document.querySelector('form[action="/console/clients/${token}/limit"]').closest('td');
      for (const each of forms.children) each.open = true;
      const right = document.querySelector('.scroll').getBoundingClientRect().right;
      Array.from(forms.querySelectorAll('.card'), (card) => card.getBoundingClientRect().right - right);
    }`);
    assert.deepEqual((beyond as number[]).filter((pixels) => pixels <= 0).length, 3, String(beyond));
    await visit.assertSound();
  });

  test('makes a client only once if the page with its secret is reloaded', async () => {
    const visit = await as(root, '/console/clients');
    const button = 'main form[method=post][action="/console/clients"] button';
    const made = async () => {
      const clients = (await bus.root.call('GET', '/api_tokens')) as { name: string; token: string }[];
      return clients.filter(({ name }) => name === 'made_once').map(({ token }) => token);
    };
    await visit.page.type('[method=post] [name=name]', 'made_once');
    await visit.submit(button);
    const token = await visit.text('dd');
    await visit.page.reload();
    assert.deepEqual(await made(), [token]);
    assert.match(await visit.text('.problem'), new RegExp(`^${token} was made meanwhile`));
    await visit.submit(button);
    assert.deepEqual((await made()).sort(), [token, await visit.text('dd')].sort());
  });

  test('replaces a secret only once if its page is reloaded', async () => {
    const client = await bus.client('rotated');
    const visit = await as(root, '/console/clients');
    const form = `form[action="/console/clients/${client.token}/rotate"]`;
    await visit.page.evaluate(`document.querySelector('${form}').closest('details').open = true`);
    await visit.submit(`${form} button`);
    const secret = await visit.text('dd:last-of-type');
    await visit.page.reload();
    assert.match(await visit.text('main'), /the secret was replaced after that time/);
    for (const each of [secret, client.secret])
      await bus.clientOf(client.token, each).publish('by_rotated', { url: 'https://shop.example.com/16' });
  });

  test('replaces a secret once, even if several people do it at the same time', async () => {
    const { token } = await bus.client('rotated');
    const cookie = await shared(root);
    const path = `/console/clients/${token}/rotate`;
    const page = await (await send('/console/clients', { cookie })).text();
    const form = page.slice(page.indexOf(`action="${path}"`));
    const fieldOf = (name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(form)?.[1] ?? '';
    const fields = { form_token: fieldOf('form_token'), secret_at: fieldOf('secret_at') };
    const rotations = Array.from({ length: 10 }, () => send(path, { cookie, fields }));
    const statuses = (await Promise.all(rotations)).map(({ status }) => status);
    assert.deepEqual(statuses.sort(), [200, ...Array(9).fill(400)]);
  });

  test('is offered no new secret of a client without one', async () => {
    const body = { name: 'secretless', token: 'token-of-secretless-client' };
    await bus.root.call('POST', '/api_tokens', body);
    const page = await htmlFor(root, '/console/clients');
    const offers = (act: string) => page.includes(`action="/console/clients/${body.token}/${act}"`);
    assert.deepEqual(['limit', 'rotate'].map(offers), [true, false]);
    await bus.root.call('DELETE', `/api_tokens/${body.token}`);
  });

  test('sends a form once while its answer may be late, but again after going back to the page', async () => {
    const visit = await as(root, '/console/clients');
    const sent = await visit.page.evaluate(`{
      const form = document.querySelector('form[method=post][action="/console/clients"]');
      const isSentAt = (value) => {
        const event = new SubmitEvent('submit', { bubbles: true, cancelable: true });
        return form.dispatchEvent(Object.defineProperty(event, 'timeStamp', { value }));
      };
      const before = [1000, 7000].map(isSentAt);
      window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
      [...before, ...[8000, 19_000].map(isSentAt)];
    }`);
    assert.deepEqual(sent, [true, false, true, true]);
  });

  test('sees the new secret also after a double click', async () => {
    const client = await bus.client('rotated');
    const visit = await as(root, '/console/clients');
    const form = `form[action="/console/clients/${client.token}/rotate"]`;
    await visit.page.evaluate(`document.querySelector('${form}').closest('details').open = true`);
    await visit.page.emulateNetworkConditions({ latency: 500, download: 1e6, upload: 1e6 });
    const clicks = visit.page.click(`${form} button`, { count: 2, delay: 50 });
    await Promise.all([visit.page.waitForNavigation(), clicks]);
    for (const each of [await visit.text('dd:last-of-type'), client.secret])
      await bus.clientOf(client.token, each).publish('by_double', { url: 'https://shop.example.com/17' });
  });
});
