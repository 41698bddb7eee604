import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { BrowserContext } from 'puppeteer-core';
import { as, bus, login } from './visits.ts';

describe('what was typed in a form', () => {
  test('is given back when the session ended', async () => {
    const { token, secret } = await bus.client('typing');
    const client = { user: token, password: secret };
    const visit = await as(client, '/console/triggers');
    const { page } = visit;
    const form = 'main form[action="/console/triggers"]';
    const value = (name: string) =>
      page.$eval(`${form} [name=${name}]`, (field) => (field as unknown as { value: string }).value);
    const type = async (name: string) => {
      await page.click('details.wide summary');
      await page.type(`${form} [name=name]`, name);
      await page.type(`${form} [name=rules]`, ' ');
    };
    await type('typed');
    await page.browserContext().deleteCookie(...(await page.browserContext().cookies()));
    await visit.submit(`${form} button`);
    await visit.login(bus.url, { ...client, password: 'wrong', path: '/console/triggers' });
    await page.type('[name=password]', client.password);
    await visit.submit('form.login button');
    assert.equal(await value('name'), 'typed');
    assert.match(await value('rules'), /^ /);
    assert.equal(await visit.text(`${form} .problem`), 'Not sent: the session had ended. Send it again.');
    await visit.assertSound();
    // The form is from before a login in another tab.
    const cookie = (await login(client.user, client.password)).split('=')[1] ?? '';
    const [own] = await page.browserContext().cookies();
    await page
      .browserContext()
      .setCookie({ ...own, value: cookie } as Parameters<BrowserContext['setCookie']>[0]);
    await visit.submit(`${form} button`);
    assert.match(await visit.text('main'), /this form is from before your last login/);
    await page.goto(`${bus.url}/console/triggers`);
    assert.equal(await value('name'), 'typed');
    // What was sent, or left on purpose, does not come again.
    await page.goto(`${bus.url}/console/topics`);
    await page.goto(`${bus.url}/console/triggers`);
    assert.equal(await value('name'), '');
  });

  test('is given back if it was sent while Redis was away', async (t) => {
    const { token, secret } = await bus.client('sending');
    const visit = await as({ user: token, password: secret }, '/console/triggers');
    const { page } = visit;
    const form = 'main form[action="/console/triggers"]';
    const value = () =>
      page.$eval(`${form} [name=name]`, (field) => (field as unknown as { value: string }).value);
    await page.click('details.wide summary');
    await page.type(`${form} [name=name]`, 'typed');
    const { redis } = bus.store;
    const permit = async () => {
      await redis.config('SET', 'min-replicas-to-write', 0);
      await redis.acl('SETUSER', 'default', '+hkeys');
    };
    t.after(permit);
    bus.announceError(/Redis forbids what a request needs/);
    // The form writes, and the page reads the names of the triggers.
    await redis.config('SET', 'min-replicas-to-write', 1);
    await redis.acl('SETUSER', 'default', '-hkeys');
    await visit.submit(`${form} button`);
    assert.match(await visit.text('main'), /unknown whether anything was changed. Go back/);
    await page.goBack();
    assert.match(await visit.text('main'), /this page needs it. Reload/);
    await permit();
    await page.reload();
    assert.equal(await value(), 'typed');
    assert.match(await visit.text(`${form} .problem`), /^It is unknown whether this was done\./);
    await page.goto(`${bus.url}/console/topics`);
    await page.goto(`${bus.url}/console/triggers`);
    assert.equal(await value(), '');
  });

  test('is given back to the same user alone, and only if the session had ended', async () => {
    const [client, other] = [await bus.client('typing_here'), await bus.client('typing_too')];
    const visit = await as({ user: client.token, password: client.secret }, '/console/triggers');
    const { page } = visit;
    const form = 'main form[action="/console/triggers"]';
    const typed = (name: string) =>
      page.$eval(`${form} [name=${name}]`, (field) => (field as unknown as { value: string }).value);
    const type = async (rules: object) => {
      await page.click('details.wide summary');
      await page.type(`${form} [name=name]`, 'mine');
      await page.evaluate(`document.querySelector('${form} [name=rules]').value = ''`);
      await page.type(`${form} [name=rules]`, JSON.stringify(rules));
    };
    const event = { type: 'noop', url: 'https://shop.example.com/1' };
    await bus.root.call('PUT', `/api_tokens/${client.token}`, { publish: [] });
    await type({ topic: 'not_allowed', event, schedule: { every: 60_000 } });
    await visit.submit(`${form} button`);
    assert.match(await visit.text(`${form} .problem`), /may not publish/);
    await page.goto(`${bus.url}/console/triggers`);
    assert.equal(await typed('name'), '');

    // What stands in a form because it was refused is kept with what is typed then.
    const rules = { topic: 'Wrong', event, schedule: { every: 60_000 } };
    await type(rules);
    await visit.submit(`${form} button`);
    await page.type(`${form} [name=name]`, 'not_');
    const leave = async () => page.browserContext().deleteCookie(...(await page.browserContext().cookies()));
    await leave();
    await visit.submit(`${form} button`);
    await visit.login(bus.url, { user: client.token, password: client.secret, path: '/console/triggers' });
    assert.deepEqual([await typed('name'), await typed('rules')], ['not_mine', JSON.stringify(rules)]);

    await page.goto(`${bus.url}/console/triggers`);
    await type({});
    await leave();
    await visit.submit(`${form} button`);
    await visit.login(bus.url, { user: other.token, password: other.secret, path: '/console/triggers' });
    assert.equal(await typed('name'), '');
  });

  test('is not sent again over what somebody else has changed meanwhile', async () => {
    const client = await bus.client('changing');
    const user = { user: client.token, password: client.secret };
    const event = { type: 'noop', url: 'https://shop.example.com/report' };
    const trigger = { topic: 'changing', event, schedule: { every: 60_000 } };
    await client.call('PUT', '/triggers/mine', trigger);
    const path = '/console/triggers/mine';
    const visit = await as(user, path);
    const { page } = visit;
    await page.click('details.wide summary');
    await page.type('[name=rules]', ' ');
    await page.browserContext().deleteCookie(...(await page.browserContext().cookies()));
    const button = 'main form[action="/console/triggers"] button';
    await visit.submit(button);
    await client.call('PUT', '/triggers/mine', { ...trigger, paused: true });
    await visit.login(bus.url, { ...user, path });
    await visit.submit(button);
    assert.match(await visit.text('main form .problem'), /^somebody has changed this trigger meanwhile/);
    assert.partialDeepStrictEqual(await client.call('GET', '/triggers/mine'), { paused: true });
  });
});
