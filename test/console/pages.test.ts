import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { TestBrowser, type TestPage } from '../../harness/browser/browser.ts';
import { answer } from '../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { RunningBus, type Scene } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';

const VIEWER_KEY = 'key-of-the-viewer-in-the-tests';
const HOSTILE = `<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202e`;
const bus = RunningBus.forTests({
  env: { ROUTEMASTER_VIEWER_KEY: VIEWER_KEY, ROUTEMASTER_MAX_ATTEMPTS: '2' },
});
const browser = TestBrowser.forTests();
const root = { user: 'root', password: ROOT_KEY };
let scene: Scene;

const PATHS = [
  '',
  ...[
    'subscribers',
    'dead_letters',
    'topics',
    'deliveries',
    'tail',
    'triggers',
    'joins',
    'jobs',
    'clients',
    'audit',
  ].map((each) => `/${each}`),
].map((path) => `/console${path}`);

before(async () => {
  await bus.works;
  bus.announceError(/gave up on a batch/);
  scene = await bus.scene({ after: (end) => ends.push(end) });
  const { publisher, topic, receiver, subscriber } = scene;
  await publisher.call('PUT', '/triggers/nightly', {
    topic: 'reports',
    event: { type: 'noop', url: 'https://shop.example.com/report' },
    schedule: { cron: '0 3 * * *', timezone: 'Europe/London' },
  });
  await subscriber.call('PUT', '/joins/ready', {
    sources: [{ topic: 'paid' }, { topic: 'packed', count: 2 }],
    by: 'url',
    then: { topic: 'ready' },
  });
  for (const letters of [1, 2]) {
    receiver.answers(answer.status(500, { 'x-hostile': '1' }), answer.status(500));
    await publisher.publish(topic, { url: 'https://shop.example.com/1', data: { note: HOSTILE } });
    await until(async () => (await subscriber.report()).dead_letters.batches === letters);
  }
});
/** Fields of forms, such as might be taken. */
const HARMLESS = {
  ...{ name: 'mine', confirm: 'x', id: 'e1', type: 'noop', url: 'https://shop.example.com' },
  ...{ topics: '', callback: 'https://shop.example.com' },
};
const ends: (() => unknown)[] = [];
after(() => Promise.all(ends.map((end) => end())));

async function as(
  login: { user: string; password: string },
  path = '/console',
  options = {},
): Promise<TestPage> {
  const visit = await browser.page(options);
  await visit.login(bus.url, { ...login, path });
  return visit;
}

describe('each page', () => {
  const wide = { width: 1280, rules: ['color-contrast'] };
  const narrow = { width: 360, scheme: 'dark' as const };
  for (const { rules, ...options } of [wide, { rules: undefined, ...narrow }]) {
    test(`is sound: ${JSON.stringify(options)}`, async () => {
      const visit = await as(root, '/console', options);
      const letter = `/console/dead_letters/${await letterId()}`;
      const { publisher, subscriber } = scene;
      const more = [
        `/console/triggers/nightly?client=${publisher.token}`,
        `/console/joins/ready?client=${subscriber.token}`,
        `/console/deliveries/${await letterId()}`,

        `/console/subscribers/${scene.subscriber.token}`,
        `/console/topics/${scene.topic}`,
        letter,
      ];
      for (const path of [...PATHS, ...more]) {
        const response = await visit.page.goto(bus.url + path);
        assert.equal(response?.status(), 200, path);
        await visit.assertSound(path, rules);
      }
    });
  }

  test('shows hostile text as text', async () => {
    const visit = await as(root, `/console/dead_letters/${await letterId()}`);
    await visit.page.click('.event summary');
    assert.match(await visit.text('.event pre'), /<script>alert\(1\)<\/script>/);
    await visit.assertSound();
  });

  test('is refreshed while somebody looks, and keeps what the reader does', async () => {
    const visit = await as(root, '/console/topics');
    const before = await visit.text('main');
    await bus
      .client('another')
      .then((client) => client.publish('zzz_new_topic', { url: 'https://shop.example.com/2' }));
    await visit.page.waitForFunction(`document.querySelector('main').textContent.includes('zzz_new_topic')`);
    assert.ok(!before.includes('zzz_new_topic'));
    assert.deepEqual(visit.complaints, []);
  });

  test('asks for nothing while its tab is hidden', async () => {
    const [hidden, visible] = [await as(root, '/console'), await as(root, '/console')];
    await hidden.page.evaluate(`Object.defineProperty(document, 'hidden', { value: true })`);
    const asked = { hidden: 0, visible: 0 };
    hidden.page.on('request', () => asked.hidden++);
    visible.page.on('request', () => asked.visible++);
    // The hidden tab was opened first, and would have asked as often.
    await until(() => asked.visible >= 2);
    assert.equal(asked.hidden, 0);
  });

  test('works without JavaScript, such as to sort and filter subscribers', async () => {
    const visit = await as(root, '/console/topics', { javascript: false });
    assert.match(await visit.text('main'), new RegExp(scene.topic));
    await visit.page.goto(`${bus.url}/console/subscribers`);
    await visit.submit('th a[href*="sort=oldest"]');
    assert.equal(await visit.text('th a[aria-current]'), 'Oldest');
    await visit.page.type('[name=name]', 'nobody_has_this_name');
    await visit.submit('.filter button');
    assert.match(visit.page.url(), /sort=oldest&name=nobody/);
    assert.match(await visit.text('main'), /No subscriber is like this/);
  });
});

describe('plots', () => {
  test('are drawn from the history, and told in words', async () => {
    const plotted = `document.querySelectorAll('figure canvas').length`;
    const visit = await as(root, '/console');
    await visit.page.waitForFunction(`${plotted} === 5`);
    await visit.page.waitForFunction(`/stored [0-9.]+ MiB/.test(document.querySelector('main').textContent)`);
    await visit.page.goto(`${bus.url}/console/subscribers/${scene.subscriber.token}?range=24h`);
    await visit.page.waitForFunction(`${plotted} === 3`);
    await visit.assertSound();
  });

  test('keep their place when they are refreshed', async () => {
    const visit = await as(root, '/console');
    await visit.page.waitForSelector('figure canvas');
    await visit.page.evaluate(`document.querySelector('figure canvas').dataset.mark = 'same'`);
    await visit.page.evaluate(`document.querySelector('figcaption').textContent = 'old'`);
    await visit.page.evaluate(`htmx.trigger(document.querySelector('#plots'), 'refresh')`);
    await visit.page.waitForFunction(`document.querySelector('figcaption').textContent !== 'old'`);
    assert.equal(await visit.page.$eval('figure canvas', ({ dataset }) => dataset.mark), 'same');
  });
});

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
    await visit.submit('main form[action$="/run"] button');
    await until(async () => (await late.subscriber.report()).events.sent === 1);
  });

  test('sends a test event to one subscriber, and sees it arrive', async () => {
    const { subscriber, receiver } = await bus.scene({ after: (end) => ends.push(end) });
    const path = `/console/subscribers/${subscriber.token}`;
    const visit = await as(root, path);
    await visit.submit(`form[action="${path}/test"] button`);
    await visit.page.waitForFunction(`/Statetaken/.test(document.querySelector('main').textContent)`);
    const [delivery] = receiver.deliveries;
    const { id: _, t: __, ...event } = delivery?.events[0] ?? {};
    const url = 'https://routemaster.invalid/test';
    assert.deepEqual(event, { topic: 'routemaster_test', type: 'noop', url });
    assert.ok(visit.page.url().endsWith(`/console/deliveries/${delivery?.headers['webhook-id']}`));
  });

  test('has a batch tried now that waits, and repeats it by curl', async () => {
    const own = await bus.scene({ after: (end) => ends.push(end) });
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
    const [first, repeated] = own.receiver.deliveries;
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
    // Watching begins with the first look.
    await until(async () => {
      await publish();
      return (await visit.page.$$('#tail tbody tr')).length > 0;
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

  test('retries a dead letter', async () => {
    const visit = await as(root, '/console/dead_letters');
    await visit.page.click('input[type=checkbox]');
    await visit.submit('button[value=retry]');
    await until(async () => (await scene.subscriber.report()).events.sent === 1);
  });

  test('retries all dead letters that match, after it has seen their number', async () => {
    const visit = await as(root, '/console/dead_letters?reason=max_age');
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

describe('a viewer', () => {
  test('sees every page, and no form but the log-out', async () => {
    const visit = await as({ user: 'viewer', password: VIEWER_KEY });
    for (const path of PATHS) {
      assert.equal((await visit.page.goto(bus.url + path))?.status(), 200, path);
      assert.deepEqual(await visit.page.$$eval('main form[method=post]', (forms) => forms.length), 0, path);
    }
  });

  test('is refused by the server, whatever form it makes', async () => {
    const visit = await as({ user: 'viewer', password: VIEWER_KEY });
    const subscriber = `/console/subscribers/${scene.subscriber.token}`;
    for (const path of [
      ...['remove', 'publish', 'take_back'].map((does) => `/console/topics/${scene.topic}/${does}`),
      ...['remove', 'pause', 'resume', 'test', 'settings'].map((does) => `${subscriber}/${does}`),
      '/console/deliveries/A96w5uKHOM8kSsHw----/retry',
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
      assert.equal(await post(visit, path), 403, path);
    }
  });
});

describe('a client', () => {
  test('publishes a test event, takes a delayed one back, and removes its topic', async () => {
    const own = await bus.scene({ after: (end) => ends.push(end) });
    const { topic, publisher, receiver } = own;
    await publisher.publish(topic, { url: 'https://shop.example.com/9', delay: 3_600_000 });
    const path = `/console/topics/${topic}`;
    const visit = await as({ user: publisher.token, password: publisher.secret }, path);
    assert.match(await visit.text('main'), /Subscribers1.*Waiting for their time1.*shop\.example\.com\/9/);
    await visit.assertSound();
    await visit.page.type('[name=data]', '{"tried": 12345678901234567890}');
    await visit.submit(`form[action="${path}/publish"] button`);
    assert.match(await visit.text('.notice'), /was published/);
    await until(() => receiver.deliveries.length > 0);
    assert.match(receiver.deliveries[0]?.body ?? '', /"data":\{"tried":12345678901234567890\}/);
    await visit.submit(`form[action="${path}/take_back"] button`);
    assert.match(await visit.text('main'), /Waiting for their time0/);
    await visit.page.evaluate(
      `document.querySelector('form[action$="/remove"]').closest('details').open = true`,
    );
    await visit.page.type('[name=confirm]', topic);
    await visit.submit(`form[action="${path}/remove"] button`);
    assert.ok(!(await visit.text('main')).includes(topic));
  });

  test('changes its subscription, which keeps its uuid', async () => {
    const { subscriber, receiver, publisher } = await bus.scene({ after: (end) => ends.push(end) });
    const path = `/console/subscribers/${subscriber.token}`;
    const visit = await as({ user: subscriber.token, password: subscriber.secret }, path);
    await visit.assertSound();
    await visit.page.evaluate(`document.querySelector('details.wide').open = true`);
    await visit.page.evaluate(`document.querySelector('[name=topics]').value = 'a_topic b_topic'`);
    await visit.page.evaluate(`document.querySelector('[name=max]').value = '7'`);
    const before = await subscriber.report();
    await visit.submit(`form[action="${path}/settings"] button`);
    const { uuid, topics, max_events, max_attempts } = await subscriber.report();
    assert.deepEqual([topics, max_events, max_attempts], [['a_topic', 'b_topic'], 7, before.max_attempts]);
    assert.equal(uuid, before.uuid);
    await publisher.publish('a_topic', { url: 'https://shop.example.com/10' });
    await until(() => receiver.deliveries.length > 0);
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
      assert.match(await visit.text('main'), /this is no JSON/);
    }
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
    const visit = await as({ user: token, password: secret });
    await visit.page.goto(`${bus.url}/console/subscribers`);
    assert.match(await visit.text('main'), new RegExp(token));
    for (const path of ['/console/clients', '/console/audit']) {
      assert.equal((await visit.page.goto(bus.url + path))?.status(), 403, path);
    }
    await visit.page.goto(`${bus.url}/console`);
    assert.equal(await post(visit, `/console/topics/${scene.topic}/remove`, { confirm: scene.topic }), 403);
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
      assert.equal(await post(visit, path, HARMLESS), 403, path);
    const strangers = await bus.scene({ after: (end) => ends.push(end) }, { timeout: 3_600_000, max: 9 });
    await strangers.publisher.publish(strangers.topic, { url: 'https://shop.example.com/6' });
    const { id } = await newest(strangers);
    assert.equal(await post(visit, `/console/deliveries/${id}/retry`), 404);
  });
});

/** The newest batch of a scene's subscriber. */
async function newest({ subscriber }: Scene): Promise<{ id: string; state: string }> {
  const batches = (await subscriber.call('GET', '/deliveries?limit=1')) as { id: string; state: string }[];
  return batches[0] ?? { id: '', state: '' };
}

async function letterId(): Promise<string> {
  const letters = (await bus.root.call('GET', '/dead_letters')) as { id: string }[];
  return letters[0]?.id ?? '';
}

/** Sends a form that the page does not offer. Resolves with the status. */
function post({ page }: TestPage, path: string, fields: Record<string, string> = {}): Promise<number> {
  const script = `(async () => {
    const form_token = document.querySelector('[name=form_token]')?.value ?? '';
    const body = new URLSearchParams({ form_token, ...${JSON.stringify(fields)} });
    return (await fetch(${JSON.stringify(path)}, { method: 'POST', body, redirect: 'manual' })).status;
  })()`;
  return page.evaluate(script) as Promise<number>;
}
