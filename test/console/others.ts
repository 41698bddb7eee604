import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answer } from '../../harness/http/receiver.ts';
import { VIEWER_KEY } from '../../harness/processes/bus_environment.ts';
import { until } from '../../harness/until.ts';
import { as, bus, ends, HARMLESS, htmlFor, newest, PATHS, post, root, scene, textFor } from './visits.ts';

describe('a viewer', () => {
  test('sees every page, and no form but the log-out', async () => {
    for (const path of PATHS) {
      const page = await htmlFor({ user: 'viewer', password: VIEWER_KEY }, path);
      const main = /<main.*<\/main>/s.exec(page)?.[0] ?? '';
      assert.notEqual(main, '', path);
      assert.doesNotMatch(main, /<form[^>]*method="?post/i, path);
    }
  });

  test('is refused by the server, whatever form it makes', async () => {
    const viewer = { user: 'viewer', password: VIEWER_KEY };
    const subscriber = `/console/subscribers/${scene.subscriber.token}`;
    for (const path of [
      ...['remove', 'publish', 'take_back'].map((does) => `/console/topics/${scene.topic}/${does}`),
      ...['remove', 'pause', 'resume', 'test', 'settings'].map((does) => `${subscriber}/${does}`),
      ...['retry', 'bury'].map((does) => `/console/deliveries/A96w5uKHOM8kSsHw----/${does}`),
      ...['fire', 'pause', 'resume', 'remove'].map((does) => `/console/triggers/nightly/${does}`),
      ...['/console/triggers', '/console/joins', '/console/joins/ready/remove'],
      '/console/jobs/main-x/run',
      `/console/clients/${scene.publisher.token}/remove`,
      '/console/dead_letters/selected',
      '/console/clients',
      `/console/clients/${scene.publisher.token}/rotate`,
      `/console/clients/${scene.publisher.token}/limit`,
      '/console/dead_letters/bulk',
      '/console/dead_letters/bulk/confirm',
    ]) {
      assert.equal(await post(viewer, path), 403, path);
    }
  });
});

describe('a client', () => {
  test('publishes an event, takes a delayed one back, and removes its topic', async () => {
    const own = await bus.scene({ after: (end) => ends.push(end) });
    const { topic, publisher, receiver } = own;
    await publisher.publish(topic, { url: 'https://shop.example.com/9', delay: 3_600_000 });
    const path = `/console/topics/${topic}`;
    const visit = await as({ user: publisher.token, password: publisher.secret }, path);
    assert.match(await visit.text('main'), /Subscribers1.*Delayed1.*shop\.example\.com\/9/);
    assert.equal(await visit.text('.tags'), '1 subscriber of other clients');
    await visit.assertSound();
    await visit.page.type('[name=data]', '{"tried": 12345678901234567890}');
    await visit.submit(`form[action="${path}/publish"] button`);
    assert.match(await visit.text('.notice'), /was published/);
    await until(() => receiver.deliveries.length > 0);
    assert.match(receiver.deliveries[0]?.body ?? '', /"data":\{"tried":12345678901234567890\}/);
    await visit.submit(`form[action="${path}/take_back"] button`);
    assert.match(await visit.text('main'), /Delayed0/);
    await visit.page.evaluate(
      `document.querySelector('form[action$="/remove"]').closest('details').open = true`,
    );
    await visit.page.type('[name=confirm]', topic);
    await visit.submit(`form[action="${path}/remove"] button`);
    assert.ok(!(await visit.text('main')).includes(topic));
    const audit = `/console/audit?action=topic.delete&target=${topic}`;
    await until(async () => /done<\/span>, 1 subscription ended/.test(await htmlFor(root, audit)));
  });

  test('changes its subscription, which keeps its uuid', async () => {
    const { subscriber, receiver, publisher } = await bus.scene({ after: (end) => ends.push(end) });
    const path = `/console/subscribers/${subscriber.token}`;
    const visit = await as({ user: subscriber.token, password: subscriber.secret }, path);
    await visit.assertSound();
    await visit.page.evaluate(`document.querySelector('details.wide').open = true`);
    await visit.page.evaluate(`document.querySelector('[name=topics]').value = 'a_topic b_topic'`);
    await visit.page.evaluate(`document.querySelector('[name=max]').value = '7'`);
    const mayBeEmpty = await visit.page.$$eval('input[type=number]', (fields) =>
      fields.filter(({ required }) => !required).map(({ name }) => name),
    );
    assert.deepEqual(mayBeEmpty, []);
    const before = await subscriber.report();
    await visit.submit(`form[action="${path}/settings"] button`);
    const { uuid, topics, max_events, max_attempts } = await subscriber.report();
    assert.deepEqual([topics, max_events, max_attempts], [['a_topic', 'b_topic'], 7, before.max_attempts]);
    assert.equal(uuid, before.uuid);
    await publisher.publish('a_topic', { url: 'https://shop.example.com/10' });
    await until(() => receiver.deliveries.length > 0);
  });

  test('is told of an empty uuid beside a 401 of its callback', async () => {
    const { topic, subscriber, receiver, publisher } = await bus.scene({ after: (end) => ends.push(end) });
    const page = () =>
      htmlFor(
        { user: subscriber.token, password: subscriber.secret },
        `/console/subscribers/${subscriber.token}`,
      );
    const isRefused = async () =>
      JSON.stringify(await subscriber.call('GET', '/deliveries')).includes('"status":401');
    receiver.usual = answer.status(401);
    await publisher.publish(topic, { url: 'https://shop.example.com/13' });
    await until(isRefused);
    assert.doesNotMatch(await page(), /answers 401/);
    const { callback } = receiver;
    await subscriber.call('POST', '/subscription', { topics: [topic], callback });
    assert.match(await page(), /The callback answers 401, and the .*uuid.* is <b>empty<\/b>/);
    receiver.usual = answer.status(204);
    await publisher.publish(topic, { url: 'https://shop.example.com/14' });
    await until(async () => (await subscriber.report()).events.sent > 0);
    assert.doesNotMatch(await page(), /answers 401/);
  });

  test('follows the links of its own page', async () => {
    const { token, secret } = scene.subscriber;
    const path = `/console/subscribers/${token}`;
    const own = { user: token, password: secret };
    const page = await htmlFor(own, path);
    for (const list of ['deliveries', 'dead_letters']) {
      const link = `/console/${list}?subscriber=${token}`;
      assert.ok(page.includes(`<a href="${link}"`), link);
      assert.match(await htmlFor(own, link), new RegExp(`<h1>.* of .*${token}.*</h1>`));
    }
  });

  test('makes and changes a trigger and a join', async () => {
    const client = await bus.client('ruler');
    const visit = await as({ user: client.token, password: client.secret }, '/console/triggers');
    for (const [kind, change] of [
      ['triggers', ['Europe/London', 'Europe/Paris']],
      ['joins', ['86400000', '3600000']],
    ] as const) {
      const path = `/console/${kind}`;
      await visit.page.goto(bus.url + path);
      await visit.page.click('details.wide summary');
      await visit.assertSound();
      await visit.page.type('[name=name]', 'made_here');
      await visit.page.evaluate(`{
        const rules = document.querySelector('[name=rules]');
        rules.value = rules.value.replace('"reports"', '"ruled"');
      }`);
      await visit.submit(`form[action="${path}"] button`);
      await visit.page.evaluate(`{
        document.querySelector('details.wide').open = true;
        const rules = document.querySelector('[name=rules]');
        rules.value = rules.value.replace('${change[0]}', '${change[1]}');
      }`);
      await visit.submit(`form[action="${path}"] button`);
      const made = await client.call('GET', `/${kind}/made_here`);
      assert.ok(JSON.stringify(made).includes(change[1]), kind);
      await visit.page.evaluate(`document.querySelector('[name=rules]').value = '{'`);
      await visit.page.evaluate(`document.querySelector('details.wide').open = true`);
      await visit.submit(`form[action="${path}"] button`);
      assert.match(await visit.text('form [role=alert]'), /^this is not JSON/);
      await visit.page.goto(bus.url + path);
      assert.ok(!(await visit.text('thead')).includes('Client'), `all ${kind} are its own`);
      await visit.page.click('details.wide summary');
      await visit.page.type('[name=name]', 'made_here');
      await visit.submit(`form[action="${path}"] button`);
      assert.match(await visit.text('form [role=alert]'), /there is a (trigger|join) with this name/);
      assert.deepEqual(await client.call('GET', `/${kind}/made_here`), made);
    }
  });

  test('without a subscription is told so, although others have one', async () => {
    const { token, secret } = await bus.client('idler');
    const page = await textFor({ user: token, password: secret }, '/console/subscribers');
    assert.match(page, /You have not subscribed yet/);
  });

  test('changes a trigger whose numbers keep their digits, and whose texts keep invisible characters', async () => {
    const { topic, publisher, receiver } = await bus.scene({ after: (end) => ends.push(end) });
    const data = { id: JSON.rawJSON('12345678901234567890'), note: 'a\u202eb\u007fc' };
    const event = { type: 'noop', url: 'https://shop.example.com/12', data };
    await publisher.call('PUT', '/triggers/precise', { topic, event, schedule: { every: 86_400_000 } });
    const who = { user: publisher.token, password: publisher.secret };
    const visit = await as(who, '/console/triggers/precise');
    await visit.page.evaluate(`document.querySelector('details.wide').open = true`);
    await visit.submit('form[action="/console/triggers"] button');
    await publisher.call('POST', '/triggers/precise/fire');
    await until(() => receiver.deliveries.length > 0);
    assert.match(receiver.deliveries[0]?.body ?? '', /"id":12345678901234567890,"note":"a\u202eb\u007fc"\}/);
  });

  test('sees where a join publishes the keys that expire', async () => {
    const client = await bus.client('expirer');
    const [sources, by, then] = [[{ topic: 'cash' }, { topic: 'boxes' }], 'url', { topic: 'sent' }];
    await client.call('PUT', '/joins/late', { sources, by, then, on_expiry: { topic: 'stuck' } });
    const page = await textFor({ user: client.token, password: client.secret }, '/console/joins/late');
    assert.match(page, /Publishes tosent\s*On expiry tostuck/);
    assert.match(page, /Oldest–/);
  });

  test('sees that its join counted a batch, which nobody answered', async () => {
    const [client, publisher] = [await bus.client('joiner'), await bus.client('counted')];
    const rules = { sources: [{ topic: 'counted' }, { topic: 'never' }], by: 'url', then: { topic: 'both' } };
    await client.call('PUT', '/joins/both', rules);
    await publisher.publish('counted', { url: 'https://shop.example.com/11' });
    const batch = () => newest({ ...scene, subscriber: client });
    await until(async () => (await batch()).state === 'taken');
    const { id } = await batch();
    const visit = await as({ user: client.token, password: client.secret }, '/console/deliveries');
    assert.match(await visit.text('main tbody tr'), new RegExp(`^${id}taken.*11counted`));
    assert.equal(await visit.text('main tbody td:nth-child(3) a'), 'join both');
    await visit.page.goto(`${bus.url}/console/deliveries/${id}`);
    assert.match(await visit.text('.steps'), /Attempt 1: counted .*The join has its events/);
    assert.doesNotMatch(await visit.text('main'), /no answer/);
    await visit.submit('main dd a');
    assert.equal(await visit.text('h1'), 'both');
    await visit.page.evaluate(`document.querySelector('details.wide').open = true`);
    await visit.submit('form[action="/console/joins"] button');
    assert.equal(await visit.text('h1'), 'both');
  });

  test('pauses, resumes and removes a trigger', async () => {
    const { token, secret } = scene.publisher;
    const path = '/console/triggers/nightly';
    const visit = await as({ user: token, password: secret }, path);
    await visit.submit(`form[action="${path}/pause"] button`);
    assert.match(await visit.text('main'), /Statepaused/);
    await visit.submit(`form[action="${path}/resume"] button`);
    assert.match(await visit.text('main'), /Staterunning/);
    await visit.page.evaluate(`document.querySelector('details.confirm:not(.wide)').open = true`);
    await visit.page.type('[name=confirm]', 'nightly');
    await visit.submit(`form[action="${path}/remove"] button`);
    assert.match(await visit.text('main'), /There is no trigger yet/);
  });

  test('sees its own, and is refused the rest', async () => {
    const { token, secret } = scene.subscriber;
    const own = { user: token, password: secret };
    assert.match(await textFor(own, '/console/subscribers'), new RegExp(token));
    for (const path of ['/console/clients', '/console/audit']) await htmlFor(own, path, 403);
    assert.equal(await post(own, `/console/topics/${scene.topic}/remove`, { confirm: scene.topic }), 403);
    for (const path of [
      ...['/console/clients', `/console/clients/${scene.publisher.token}/rotate`],
      `/console/clients/${scene.publisher.token}/remove`,
      `/console/clients/${scene.publisher.token}/limit`,
      `/console/topics/${scene.topic}/publish`,
      `/console/topics/${scene.topic}/take_back`,
      ...['pause', 'resume', 'test', 'settings', 'remove'].map(
        (does) => `/console/subscribers/${scene.publisher.token}/${does}`,
      ),
      '/console/jobs/main-x/run',
    ])
      assert.equal(await post(own, path, HARMLESS), 403, path);
    const strangers = await bus.scene({ after: (end) => ends.push(end) }, { timeout: 3_600_000, max: 9 });
    await strangers.publisher.publish(strangers.topic, { url: 'https://shop.example.com/6' });
    const { id } = await newest(strangers);
    assert.equal(await post(own, `/console/deliveries/${id}/retry`), 404);
  });
});
