import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { as, bus, ends, newest, root, scene, textFor } from '../visits.ts';

describe('root', () => {
  test('pauses a subscriber, and resumes it', async () => {
    const path = `/console/subscribers/${scene.subscriber.token}`;
    const visit = await as(root, path);
    await visit.submit(`form[action="${path}/pause"] button`);
    assert.equal((await scene.subscriber.report()).paused_by, 'operator');
    assert.match(await visit.text('main'), /Statepaused.*ago by the operator/);
    await visit.page.goto(`${bus.url}/console`);
    await visit.until(`/1 subscriber is paused/.test(document.querySelector('main').textContent)`);
    await visit.page.goto(bus.url + path);
    await visit.submit(`form[action="${path}/resume"] button`);
    assert.equal((await scene.subscriber.report()).paused_by, null);
  });

  test('has a scheduled job run now', async () => {
    const late = await bus.scene({ after: (end) => ends.push(end) }, { timeout: 3_600_000, max: 100 });
    await late.publisher.publish(late.topic, { url: 'https://shop.example.com/5' });
    const visit = await as(root, '/console/jobs?state=scheduled');
    const { id } = await newest(late);
    for (const path of [`deliveries/${id}`, `subscribers/${late.subscriber.token}`])
      assert.ok(await visit.page.$(`td a[href="/console/${path}"]`), path);
    await visit.submit('main form[action$="/run"] button');
    assert.ok(visit.page.url().endsWith('/console/jobs?state=scheduled'));
    await until(async () => (await late.subscriber.report()).events.sent === 1);
  });

  test('sends a test event to one subscriber, and sees it arrive', async () => {
    const { subscriber, receiver } = await bus.scene({ after: (end) => ends.push(end) });
    const path = `/console/subscribers/${subscriber.token}`;
    const visit = await as(root, path);
    await visit.submit(`form[action="${path}/test"] button`);
    await visit.until(`/Statetaken/.test(document.querySelector('main').textContent)`);
    assert.match(await visit.text('.figures'), /Content1 event, \d+ B/);
    const [delivery] = receiver.deliveries;
    const { id: _, t: __, ...event } = delivery?.events[0] ?? {};
    const url = 'https://routemaster.invalid/test';
    assert.deepEqual(event, { topic: 'routemaster_test', type: 'noop', url });
    assert.ok(visit.page.url().endsWith(`/console/deliveries/${delivery?.headers['webhook-id']}`));
  });

  test('reads in the lists why a callback gave no answer', async () => {
    const own = await bus.scene({ after: (end) => ends.push(end) });
    const { publisher, subscriber, topic } = own;
    const refusing = { topics: [topic], callback: 'http://127.0.0.1:9/', uuid: 'me', max_attempts: 1000 };
    await subscriber.call('POST', '/subscription', refusing);
    await publisher.publish(topic, { url: 'https://shop.example.com/18' });
    await until(async () => (await newest(own)).state === 'retrying');
    const page = await textFor(root, `/console/subscribers/${subscriber.token}`);
    assert.match(page, /retrying1\d+ECONNREFUSED/);
  });

  test('opens the batch whose webhook-id a receiver has logged', async () => {
    const { publisher, topic, receiver } = await bus.scene({ after: (end) => ends.push(end) });
    await publisher.publish(topic, { url: 'https://shop.example.com/17' });
    await until(() => receiver.deliveries.length === 1);
    const id = String(receiver.deliveries[0]?.headers['webhook-id']);
    const visit = await as(root, '/console/deliveries');
    await visit.page.type('[name=id]', ` ${id} `);
    await visit.submit('form[action$="/find"] button');
    assert.equal(await visit.text('h1'), `Delivery ${id}`);
    assert.ok(visit.page.url().endsWith(`/console/deliveries/${id}`));
  });

  test('has a batch tried now that waits, and repeats it by curl', async () => {
    const own = await bus.scene({ after: (end) => ends.push(end) });
    // curl would take these brackets and braces for several addresses.
    const callback = `${own.receiver.callback}?of[]={a,b}`;
    const subscription = { topics: [own.topic], callback, uuid: 'me', max: 1, timeout: 0 };
    await own.subscriber.call('POST', '/subscription', subscription);
    own.receiver.answers(answer.status(500, { 'retry-after': '3600' }));
    await own.publisher.publish(own.topic, { url: "https://shop.example.com/it's", data: { at: 2 ** 53 } });
    await until(async () => (await newest(own)).state === 'retrying');
    const { id } = await newest(own);
    const visit = await as(root, `/console/subscribers/${own.subscriber.token}`);
    const retry = `form[action="/console/deliveries/${id}/retry"] button`;
    assert.match(await visit.text('main'), /To be tried again/);
    await visit.page.goto(`${bus.url}/console/deliveries/${id}`);
    assert.match(await visit.text('.figures'), /Next attemptin (59 min|1 h)/);
    await visit.assertSound();
    await visit.page.click('details.confirm:has(.copyable) summary');
    const command = await visit.page.$eval('.copyable pre', ({ textContent }) => textContent ?? '');
    await promisify(execFile)('sh', ['-c', command], { env: { ...process.env, DELIVERY_UUID: 'me' } });
    const [first, repeated, ...others] = own.receiver.deliveries;
    assert.deepEqual(others, []);
    assert.deepEqual(repeated?.events, first?.events);
    assert.equal(repeated?.headers['webhook-id'], id);
    await visit.page.goto(visit.page.url());
    await visit.submit(retry);
    await until(async () => (await newest(own)).state === 'taken');
    await visit.until(
      `/Opened.*Closed.*Attempt 1: 500.*Attempt 2: 2/.test(document.querySelector('.steps').textContent)`,
    );
    await visit.until(`/Statetaken/.test(document.querySelector('main').textContent)`);
  });

  test('gives up a batch that an ordered subscriber refuses, and the next one is delivered', async () => {
    const own = await bus.scene({ after: (end) => ends.push(end) });
    const { callback } = own.receiver;
    const subscription = { topics: [own.topic], callback, ordered: true, max: 1, timeout: 0 };
    await own.subscriber.call('POST', '/subscription', subscription);
    own.receiver.answers(answer.status(422, { 'retry-after': '3600' }));
    await own.publisher.publish(own.topic, [{ url: 'https://shop.example.com/1' }]);
    await until(async () => (await newest(own)).state === 'retrying');
    const { id } = await newest(own);
    await own.publisher.publish(own.topic, [{ url: 'https://shop.example.com/2' }]);
    const visit = await as(root, `/console/deliveries/${id}`);
    const bury = `form[action="/console/deliveries/${id}/bury"]`;
    await visit.page.click(`details:has(${bury}) summary`);
    await visit.submit(`${bury} button`);
    assert.match(await visit.text('main'), /Statedead.*buried/s);
    await until(async () => (await newest(own)).state === 'taken');
    const labels = { subscriber: own.subscriber.token, reason: 'buried' };
    await until(async () => (await bus.metric('routemaster_batches_dead_lettered_total', labels)) === 1);
    await own.subscriber.call('DELETE', `/dead_letters/${id}`);
  });

  test('stops the live tail, copies an event, and goes on', async () => {
    const visit = await as(root, '/console/tail');
    const publish = () => scene.publisher.publish('tailed', { url: 'https://shop.example.com/7' });
    const shows = (count: number) =>
      visit.until(`document.querySelectorAll('#tail tbody tr').length === ${count}`);
    // Watching begins with the first look, which may have been that of another test. The newest event comes first.
    await until(async () => {
      await publish();
      return (await visit.text('#tail')).includes('shop.example.com/7');
    });
    await visit.page.click('[data-pause]');
    const { length } = await visit.page.$$('#tail tbody tr');
    await visit.page.click('#tail summary');
    await visit.page.evaluate(
      `Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text; } } })`,
    );
    await visit.page.click('#tail details[open] [data-copy]');
    await visit.until(`JSON.parse(window.copied ?? '{}').topic === 'tailed'`);
    await publish();
    await visit.page.click('#tail summary');
    await shows(length);
    await visit.page.click('[data-pause]');
    await visit.until(`document.querySelectorAll('#tail tbody tr').length > ${length}`);
    await visit.assertSound();
  });

  test('sees that jobs wait for a paused subscriber', async () => {
    const { subscriber, publisher, topic } = await bus.scene({ after: (end) => ends.push(end) });
    await subscriber.call('POST', '/subscriber/pause');
    await publisher.publish(topic, { url: 'https://shop.example.com/8' });
    const visit = await as(root, '/console/jobs?state=waiting');
    await visit.until(`/Its subscriber is paused/.test(document.querySelector('main').textContent)`);
    await visit.submit('td a[href^="/console/deliveries/"]');
    assert.match(await visit.text('main'), /Waits forits subscriber to be resumed/);
  });
});
