import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { answer } from '../../harness/http/receiver.ts';
import { until } from '../../harness/until.ts';
import { as, bus, ends, letterId, newest, post, root, scene, send, shared } from './visits.ts';

describe('root', () => {
  test('pauses a subscriber, and resumes it', async () => {
    const path = `/console/subscribers/${scene.subscriber.token}`;
    const visit = await as(root, path);
    await visit.submit(`form[action="${path}/pause"] button`);
    assert.equal((await scene.subscriber.report()).paused_by, 'operator');
    assert.match(await visit.text('main'), /Statepaused.*ago by the operator/);
    await visit.page.goto(`${bus.url}/console`);
    await visit.page.waitForFunction(
      `/1 subscriber is paused/.test(document.querySelector('main').textContent)`,
    );
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
    await visit.page.waitForFunction(`/Statetaken/.test(document.querySelector('main').textContent)`);
    assert.match(await visit.text('.figures'), /Content1 event, \d+ B/);
    const [delivery] = receiver.deliveries;
    const { id: _, t: __, ...event } = delivery?.events[0] ?? {};
    const url = 'https://routemaster.invalid/test';
    assert.deepEqual(event, { topic: 'routemaster_test', type: 'noop', url });
    assert.ok(visit.page.url().endsWith(`/console/deliveries/${delivery?.headers['webhook-id']}`));
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
    await visit.assertSound();
    await visit.page.click('details.confirm summary');
    const command = await visit.page.$eval('.copyable pre', ({ textContent }) => textContent ?? '');
    await promisify(execFile)('sh', ['-c', command], { env: { ...process.env, DELIVERY_UUID: 'me' } });
    const [first, repeated, ...others] = own.receiver.deliveries;
    assert.deepEqual(others, []);
    assert.deepEqual(repeated?.events, first?.events);
    assert.equal(repeated?.headers['webhook-id'], id);
    await visit.page.goto(visit.page.url());
    await visit.submit(retry);
    await until(async () => (await newest(own)).state === 'taken');
    await visit.page.waitForFunction(
      `/Opened.*Closed.*Attempt 1: 500.*Attempt 2: 2/.test(document.querySelector('.steps').textContent)`,
    );
    await visit.page.waitForFunction(`/Statetaken/.test(document.querySelector('main').textContent)`);
  });

  test('stops the live tail, copies an event, and goes on', async () => {
    const visit = await as(root, '/console/tail');
    const publish = () => scene.publisher.publish('tailed', { url: 'https://shop.example.com/7' });
    const shows = (count: number) =>
      visit.page.waitForFunction(`document.querySelectorAll('#tail tbody tr').length === ${count}`);
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
    await visit.page.waitForFunction(`JSON.parse(window.copied ?? '{}').topic === 'tailed'`);
    await publish();
    await visit.page.click('#tail summary');
    await shows(length);
    await visit.page.click('[data-pause]');
    await visit.page.waitForFunction(`document.querySelectorAll('#tail tbody tr').length > ${length}`);
    await visit.assertSound();
  });

  test('sees that jobs wait for a paused subscriber', async () => {
    const { subscriber, publisher, topic } = await bus.scene({ after: (end) => ends.push(end) });
    await subscriber.call('POST', '/subscriber/pause');
    await publisher.publish(topic, { url: 'https://shop.example.com/8' });
    const visit = await as(root, '/console/jobs?state=waiting');
    await visit.page.waitForFunction(
      `/Its subscriber is paused/.test(document.querySelector('main').textContent)`,
    );
  });

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
    const visit = await as(root, `/console/triggers/exact?client=${client.token}`);
    assert.match(await visit.text('main'), /Whenevery 1 h 30 min/);
    await visit.page.goto(`${bus.url}/console/joins/exact?client=${client.token}`);
    assert.match(await visit.text('main'), /Within1 min 30 s/);
    await visit.page.goto(`${bus.url}/console/subscribers/${client.token}`);
    assert.match(await visit.text('main'), /Waits for more1 s 500 ms.*1,550 attempts, or 1 d 12 h/);
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
      assert.match(await visit.text('main'), /Statepaused/);
    }
  });

  test('sees whose a trigger and a join are', async () => {
    const { publisher, subscriber } = scene;
    const visit = await as(root);
    for (const [path, { token }] of [
      ['triggers/nightly', publisher],
      ['joins/ready', subscriber],
    ] as const) {
      await visit.page.goto(`${bus.url}/console/${path}?client=${token}`);
      assert.match(await visit.text('dl.settings'), new RegExp(`^Client${token}`), path);
    }
  });

  test('reads what a name may consist of, where the browser checks it', async () => {
    const visit = await as(root);
    for (const list of ['clients', 'triggers', 'joins', 'tail']) {
      await visit.page.goto(`${bus.url}/console/${list}`);
      assert.match(await visit.page.$eval('input[pattern]', ({ title }) => title), /^a-z, 0-9/, list);
    }
  });

  test('makes a client, and sees its secret once', async () => {
    const visit = await as(root, '/console/clients');
    await visit.page.type('[name=name]', 'made_here');
    await visit.submit('main form[action="/console/clients"] button');
    const secret = await visit.text('dd:last-of-type');
    const token = await visit.text('dd');
    assert.match(token, /^made_here--/);
    await bus.clientOf(token, secret).publish('by_made_here', { url: 'https://shop.example.com/3' });
    await visit.submit('a.button');
    assert.ok(!(await visit.text('main')).includes(secret));
  });

  test('makes a client only once if the page with its secret is reloaded', async () => {
    const visit = await as(root, '/console/clients');
    const button = 'main form[action="/console/clients"] button';
    const made = async () => {
      const clients = (await bus.root.call('GET', '/api_tokens')) as { name: string; token: string }[];
      return clients.filter(({ name }) => name === 'made_once').map(({ token }) => token);
    };
    await visit.page.type('[name=name]', 'made_once');
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
    const visit = await as(root, '/console/clients');
    const offers = (act: string) => visit.page.$(`form[action="/console/clients/${body.token}/${act}"]`);
    assert.ok(await offers('limit'));
    assert.equal(await offers('rotate'), null);
    await bus.root.call('DELETE', `/api_tokens/${body.token}`);
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
    await visit.page.waitForFunction(
      `/Retried 1 dead letter/.test(document.querySelector('h1').textContent)`,
    );
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
      visit.page.waitForFunction(`document.querySelector('#bulk').textContent.includes(
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
    await post(visit, '/console/dead_letters/bulk', { subscriber: token, join: 'none', do: 'retry' });
    await visit.page.goto(`${bus.url}/console/dead_letters/bulk`);
    await visit.page.waitForFunction(`document.body.textContent.includes('No dead letter matches')`);
  });

  test('leaves in the audit what its forms were about', async () => {
    const client = await bus.client('audited');
    const visit = await as(root, '/console/clients');
    await visit.page.type('[name=name]', 'made_for_audit');
    await visit.submit('main form[action="/console/clients"] button');
    const { token } = client;
    const made = await visit.text('dd');
    const event = { type: 'noop', url: 'https://shop.example.com/15' };
    const rules = JSON.stringify({ topic: 'audited', event, schedule: { every: 60_000 } });
    assert.equal(await post(visit, '/console/triggers', { client: token, name: 'audited', rules }), 0);
    assert.equal(await post(visit, '/console/dead_letters/selected', { id: 'none', do: 'purge' }), 404);
    assert.equal(await post(visit, '/console/dead_letters/bulk', { subscriber: token, do: 'purge' }), 0);
    const { redis, keys } = bus.store;
    const id = String(await redis.hget(keys.bulk(':root'), 'id'));
    assert.equal(await post(visit, '/console/dead_letters/bulk/cancel', { id }), 0);
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
    await visit.assertSound();
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
