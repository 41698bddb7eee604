import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { as, bus, ends, letterId, post, root, scene } from '../visits.ts';

describe('root', () => {
  test('retries a dead letter, and keeps the filter', async () => {
    const visit = await as(root, '/console/dead_letters?reason=max_attempts');
    await visit.page.click('input[type=checkbox]');
    await visit.submit('button[value=retry]');
    assert.ok(visit.page.url().endsWith('/console/dead_letters?reason=max_attempts'));
    await until(async () => (await scene.subscriber.report()).events.sent === 1);
  });

  test('retries the selected dead letters that are still there', async () => {
    const { subscriber, topic, publisher, receiver } = await bus.scene({ after: (end) => ends.push(end) });
    const { callback } = receiver;
    const subscription = { topics: [topic], callback, uuid: 'me', max: 1, timeout: 0, max_attempts: 1 };
    await subscriber.call('POST', '/subscription', subscription);
    receiver.answers(...[1, 2, 3].map(() => answer.status(500)));
    for (const n of [1, 2, 3]) await publisher.publish(topic, { url: `https://shop.example.com/${n}` });
    await until(async () => (await subscriber.report()).dead_letters.batches === 3);
    const visit = await as(root, `/console/dead_letters?subscriber=${subscriber.token}`);
    for (const list of ['deliveries', 'dead_letters']) {
      await visit.page.goto(`${bus.url}/console/${list}?subscriber=${subscriber.token}`);
      await visit.submit(`td a[href^="/console/subscribers"]`);
      assert.equal(await visit.text('h1'), subscriber.token);
    }
    await visit.page.goto(`${bus.url}/console/dead_letters?subscriber=${subscriber.token}`);
    const ids = await visit.page.$$eval('input[type=checkbox]', (boxes) =>
      boxes.map((box) => {
        box.click();
        return box.value;
      }),
    );
    await subscriber.call('DELETE', `/dead_letters/${ids[0]}`);
    const filtered = visit.page.url();
    await visit.submit('button[value=retry]');
    assert.match(
      await visit.text('main'),
      /^Retried 2 dead letters 1 of those that were selected was left out/,
    );
    await visit.assertSound();
    await until(() => receiver.events.length === 2);
    await visit.submit('main a');
    assert.equal(visit.page.url(), filtered);
    assert.match(await visit.text('main'), /None match/);
  });

  test('purges the selected dead letters only after it was warned', async (t) => {
    const { subscriber, topic, publisher, receiver } = await bus.scene(t);
    receiver.answers(answer.status(500), answer.status(500));
    await publisher.publish(topic, { url: 'https://shop.example.com/1' });
    await until(async () => (await subscriber.report()).dead_letters.batches === 1);
    const visit = await as(root, `/console/dead_letters?subscriber=${subscriber.token}`);
    await visit.page.click('input[type=checkbox]');
    const button = 'form[action$="/selected"] button[value=purge]';
    assert.equal(await visit.page.$eval(button, (each) => each.checkVisibility()), false);
    await visit.page.click('form[action$="/selected"] summary');
    assert.match(await visit.text('form[action$="/selected"] .confirm'), /deleted, and never delivered/);
    await visit.assertSound();
    await visit.submit(button);
    assert.equal((await subscriber.report()).dead_letters.batches, 0);
  });

  test('retries and purges a dead letter on its page, to which the list leads', async () => {
    const { subscriber, topic, publisher, receiver } = await bus.scene({ after: (end) => ends.push(end) });
    const { callback } = receiver;
    const subscription = { topics: [topic], callback, uuid: 'me', max: 1, timeout: 0, max_attempts: 1 };
    await subscriber.call('POST', '/subscription', subscription);
    receiver.answers(answer.status(500), answer.status(500));
    await publisher.publish(topic, { url: 'https://shop.example.com/1' });
    await until(async () => (await subscriber.report()).dead_letters.batches === 1);
    const visit = await as(root, `/console/dead_letters?subscriber=${subscriber.token}`);
    await visit.submit('td a[href^="/console/deliveries"]');
    assert.match(await visit.text('main'), /Retry now.*Purge.*HTTP 500.*Became a dead letter.*max_attempts/);
    const page = visit.page.url();
    await visit.submit('.acts .quiet');
    await until(() => receiver.deliveries.length === 2);
    await until(async () => (await subscriber.report()).dead_letters.batches === 1);
    await visit.page.goto(page);
    const story =
      /Attempt before the retry: 500.*Put back into the queue.*Attempt 1: 500.*Became a dead letter/;
    assert.match(await visit.text('.steps'), story);
    await visit.page.click('.acts summary');
    await visit.submit('.acts .danger');
    assert.equal(await visit.text('h1'), 'Dead letters');
    assert.equal((await subscriber.report()).dead_letters.batches, 0);
  });

  test('retries all dead letters that match, after it has seen their number', async () => {
    const visit = await as(root, '/console/dead_letters?reason=max_age');
    assert.match(await visit.text('main'), /None match/);
    await visit.page.goto(`${bus.url}/console/dead_letters?before=1-${await letterId()}`);
    assert.match(await visit.text('main'), /None match/);
    await visit.page.select('[name=reason]', 'max_attempts');
    await visit.submit('.filter button');
    await visit.submit('form[action$="/bulk"] button[value=retry]');
    await visit.page.waitForSelector('form[action$="/confirm"]');
    assert.equal(await visit.text('h1'), '1 dead letter matches');
    await visit.submit('form[action$="/confirm"] button');
    await visit.until(`/Retried 1 dead letter/.test(document.querySelector('h1').textContent)`);
    assert.equal((await scene.subscriber.report()).dead_letters.batches, 0);
    await visit.page.goto(`${bus.url}/console/dead_letters`);
    assert.match(await visit.text('main'), /Retried 1 dead letter.*Nothing has died/);
    await until(async () => (await scene.subscriber.report()).events.sent === 2);
    await visit.assertSound();
  });

  test('sees whose dead letters would be retried, and that another was begun in place of its own', async (t) => {
    const { subscriber, topic, publisher, receiver } = await bus.scene(t);
    const { token } = subscriber;
    const form = 'form[action="/console/dead_letters/bulk"]';
    const path = `/console/dead_letters?subscriber=${token}`;
    receiver.answers(answer.status(500), answer.status(500));
    await publisher.publish(topic, { url: 'https://shop.example.com/14' });
    await until(async () => (await subscriber.report()).dead_letters.batches === 1);
    const [visit, other] = [await as(root, path), await as(root, path)];
    await visit.submit(`${form} button[value=retry]`);
    await visit.page.waitForSelector('form[action$="/confirm"]');
    assert.ok((await visit.text('main')).includes(`Of ${token}, that died until`));
    // The other tab asks for a purge. The first one must not refresh meanwhile, or it would show the purge.
    await visit.page.evaluate(`document.querySelector('#bulk').toggleAttribute('data-paused')`);
    await other.submit(`${form} button[value=purge]`);
    await visit.submit('form[action$="/confirm"] button');
    const says = (text: string) =>
      visit.until(`document.querySelector('#bulk').textContent.includes(
      ${JSON.stringify(text)})`);
    await says('Somebody has begun this one meanwhile, in place of the one that was here.');
    await says('Purge 1 dead letter');
    await visit.page.goto(`${bus.url}/console/dead_letters/bulk`);
    assert.doesNotMatch(await visit.text('main'), /meanwhile/);
    await other.page.goto(bus.url + path);
    await other.submit(`${form} button[value=retry]`);
    await says('Somebody has begun this one meanwhile');
    await says('Retry 1 dead letter');
    const { redis, keys } = bus.store;
    await redis.hset(keys.bulk(':root'), 'state', 'running');
    t.after(() => redis.unlink(keys.bulk(':root')));
    await visit.page.goto(bus.url + path);
    await visit.submit(`${form} button[value=retry]`);
    await visit.page.waitForResponse((response) => response.url().includes('/bulk'));
    await visit.page.evaluate(
      `new Promise((resolve) => document.addEventListener('htmx:after:swap', resolve))`,
    );
    assert.match(await visit.text('#bulk'), /^This one still runs, so no other was begun/);
    await subscriber.call('DELETE', '/subscriber');
  });

  test('retries of the joins of a client only the one that is listed', async (t) => {
    const { subscriber, topic, publisher, receiver } = await bus.scene(t);
    const { token } = subscriber;
    receiver.answers(answer.status(500), answer.status(500));
    await publisher.publish(topic, { url: 'https://shop.example.com/16' });
    await until(async () => (await subscriber.report()).dead_letters.batches === 1);
    const visit = await as(root, `/console/dead_letters?subscriber=${token}&join=none`);
    assert.match(await visit.text('main'), /None match/);
    await visit.submit('form.filter button');
    assert.match(visit.page.url(), /[?&]join=none/);
    await post(root, '/console/dead_letters/bulk', { subscriber: token, join: 'none', do: 'retry' });
    await visit.page.goto(`${bus.url}/console/dead_letters/bulk`);
    await visit.until(`document.body.textContent.includes('No dead letter matches')`);
  });
});
