import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
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
  receiver.answers(answer.status(500, { 'x-hostile': '1' }), answer.status(500));
  await publisher.publish(topic, { url: 'https://shop.example.com/1', data: { note: HOSTILE } });
  await until(async () => (await subscriber.report()).dead_letters.batches === 1);
});
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
    await visit.page.evaluate(`document.querySelector('h1').textContent = 'old'`);
    await visit.page.waitForFunction(`document.querySelector('h1').textContent !== 'old'`);
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
    assert.match(await visit.text('main'), /Nothing has died/);
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
    for (const path of [
      `/console/topics/${scene.topic}/remove`,
      `/console/subscribers/${scene.subscriber.token}/remove`,
      '/console/clients',
      `/console/clients/${scene.publisher.token}/rotate`,
      '/console/dead_letters/all',
    ]) {
      assert.equal(await post(visit, path), 403, path);
    }
  });
});

describe('a client', () => {
  test('pauses, resumes and removes a trigger', async () => {
    const { token, secret } = scene.publisher;
    const path = '/console/triggers/nightly';
    const visit = await as({ user: token, password: secret }, path);
    await visit.submit(`form[action="${path}/pause"] button`);
    assert.match(await visit.text('main'), /Statepaused/);
    await visit.submit(`form[action="${path}/resume"] button`);
    assert.match(await visit.text('main'), /Staterunning/);
    await visit.page.evaluate(`document.querySelector('details.confirm').open = true`);
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
    assert.equal(await post(visit, '/console/clients', { name: 'mine' }), 403);
  });
});

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
