import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { ROOT_KEY, VIEWER_KEY } from '../../harness/processes/bus_environment.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { as, browser, bus, login, root, send } from './visits.ts';

async function formToken(cookie: string): Promise<string> {
  const page = await (await send('/console', { cookie })).text();
  return /name="form_token" value="([^"]+)"/.exec(page)?.[1] ?? '';
}

const isIn = async (cookie: string) => (await send('/console', { cookie })).status === 200;

describe('the login', () => {
  for (const options of [{ javascript: false }, { width: 360, scheme: 'dark' as const }]) {
    test(`lets root in and out: ${JSON.stringify(options)}`, async () => {
      const visit = await browser.page(options);
      await visit.page.goto(`${bus.url}/console`);
      assert.match(visit.page.url(), /\/console\/login\?to=%2Fconsole$/);
      if (options.javascript !== false) await visit.assertSound();
      await visit.login(bus.url, { ...root, password: 'wrong' });
      assert.equal(await visit.text('.problem'), 'there is no such user, or the password is wrong');
      assert.equal(await visit.page.$eval(':focus', (field) => field.getAttribute('name')), 'password');
      await visit.login(bus.url, root);
      assert.equal(visit.page.url(), `${bus.url}/console`);
      if (options.javascript !== false) await visit.assertSound();
      await visit.submit('header button');
      await visit.page.goto(`${bus.url}/console`);
      assert.match(visit.page.url(), /\/console\/login/);
    });
  }

  test('lets root in over plain http at another name than that of the own machine', async () => {
    const elsewhere = `http://bus.test:${new URL(bus.url).port}`;
    const visit = await browser.page();
    await visit.login(elsewhere, root);
    assert.equal(visit.page.url(), `${elsewhere}/console`);
    await visit.submit('header button');
    assert.match(visit.page.url(), /\/console\/login/);
  });

  test('takes the keys of root and the viewer, and tokens with their secrets', async () => {
    const client = await bus.client('shop');
    await login('viewer', VIEWER_KEY);
    await login(client.token, client.secret);
    for (const [user, password] of [
      ['root', VIEWER_KEY],
      ['viewer', ROOT_KEY],
      [client.token, 'wrong'],
      ['nobody', ''],
    ] as const) {
      assert.equal((await send('/console/login', { fields: { user, password } })).status, 401, user);
    }
  });

  test('leads to the page that was asked for, with its filter, from an open page or a form too', async () => {
    const path = '/console/triggers?limit=5';
    const leads = (await send(path, {})).headers.get('location');
    assert.equal(leads, `/console/login?to=${encodeURIComponent(path)}`);
    // A client, because more sessions of root would end the one that other tests share.
    const { token, secret } = await bus.client('returning');
    const client = { user: token, password: secret };
    for (const javascript of [true, false]) {
      const visit = await as(client, '/console/deliveries?state=dead', { javascript });
      const context = visit.page.browserContext();
      const leave = async () => context.deleteCookie(...(await context.cookies()));
      const enter = async () => {
        await visit.page.type('[name=user]', client.user);
        await visit.page.type('[name=password]', client.password);
        await visit.submit('form.login button');
      };
      if (javascript) {
        await Promise.all([visit.page.waitForNavigation(), leave()]);
        await enter();
        assert.equal(visit.page.url(), `${bus.url}/console/deliveries?state=dead`);
      }
      await visit.page.goto(bus.url + path);
      await leave();
      await visit.page.click('details.wide summary');
      await visit.page.type('[name=name]', 'unmade');
      await visit.submit('main form[action="/console/triggers"] button');
      await enter();
      assert.equal(visit.page.url(), bus.url + path);
    }
  });

  test('leads to the page of a form, if the address is that of the form', async () => {
    const { token, secret } = await bus.client('addressed');
    for (const [to, leads] of [
      ['/console/clients/x/limit', '/console/clients'],
      ['/console/topics/orders/publish', '/console/topics/orders'],
      ['/console/logout?x=1', '/console'],
      ['/console/deliveries?state=dead', '/console/deliveries?state=dead'],
    ] as const) {
      const response = await send('/console/login', { fields: { user: token, password: secret, to } });
      assert.equal(response.headers.get('location'), leads, to);
    }
  });

  test('shows nothing again that is longer than a user or a path can be', async () => {
    const long = '<'.repeat(40_000);
    for (const fields of [
      { user: long, password: 'wrong' },
      { user: 'root', password: 'wrong', to: `/console?${long}` },
    ]) {
      const answer = await send('/console/login', { fields });
      assert.ok([400, 401].includes(answer.status), String(answer.status));
      assert.ok((await answer.text()).length < 5000);
    }
  });

  test('sends nobody elsewhere afterwards', async () => {
    for (const to of [
      'https://evil.example.com',
      '//evil.example.com',
      '/console/../x',
      '/topics',
      '/console//evil',
    ]) {
      const response = await send('/console/login', { fields: { ...root, to } });
      const location = response.headers.get('location') ?? '';
      assert.ok(new URL(location, bus.url).pathname.startsWith('/console'), location);
      assert.equal(new URL(location, bus.url).origin, bus.url);
    }
  });

  test('is limited like every other: after a hundred failures of an address it takes right ones alone', async () => {
    const own = await RunningBus.open();
    try {
      await own.start('web');
      const tryOnce = (password: string) =>
        fetch(`${own.url}/console/login`, {
          ...{ method: 'POST', body: new URLSearchParams({ user: 'root', password }), redirect: 'manual' },
          headers: { 'sec-fetch-site': 'same-origin' },
        });
      // Failures are counted by the minute. One may end in between, so there are enough tries for two.
      let status = 0;
      for (let n = 0; n < 220 && status !== 429; n++) ({ status } = await tryOnce(`wrong-${n}`));
      assert.equal(status, 429);
      assert.equal((await tryOnce(ROOT_KEY)).status, 303);
    } finally {
      await own.close();
    }
  });
});

describe('a session', () => {
  test('has a cookie that no script and no other site gets', async () => {
    const response = await send('/console/login', { fields: root });
    assert.match(
      response.headers.get('set-cookie') ?? '',
      /^routemaster_session=[\w-]{32}; Max-Age=43200; Path=\/console; HttpOnly; SameSite=Strict$/,
    );
  });

  test('ends with the log-out, also for whoever has copied the cookie', async () => {
    const cookie = await login('root', ROOT_KEY);
    const form_token = await formToken(cookie);
    assert.equal(await isIn(cookie), true);
    assert.equal((await send('/console/logout', { cookie, fields: { form_token } })).status, 303);
    assert.equal(await isIn(cookie), false);
  });

  test('ends when the secret is changed, and when the client is removed', async () => {
    const client = await bus.client('shop');
    const first = await login(client.token, client.secret);
    const { secret } = (await bus.root.call('POST', `/api_tokens/${client.token}/secret`, { grace: 0 })) as {
      secret: string;
    };
    await until(async () => !(await isIn(first)));
    const second = await login(client.token, secret);
    assert.equal(await isIn(second), true);
    await bus.root.call('DELETE', `/api_tokens/${client.token}`);
    await until(async () => !(await isIn(second)));
  });

  test('that began with a former secret ends with the grace of that secret', async () => {
    const client = await bus.client('shop');
    const before = await login(client.token, client.secret);
    const replacing = await bus.root.call('POST', `/api_tokens/${client.token}/secret`, { grace: 4000 });
    const after = await login(client.token, (replacing as { secret: string }).secret);
    const meanwhile = await login(client.token, client.secret);
    assert.deepEqual(await Promise.all([before, meanwhile].map(isIn)), [true, true]);
    // Looks seldom, because a client that asks too often is answered 429.
    const slowly = { everyMs: 500, timeoutMs: 10_000 };
    await until(async () => !(await isIn(before)) && !(await isIn(meanwhile)), slowly);
    assert.equal(await isIn(after), true);
  });

  test('is one of twenty at most', async () => {
    const client = await bus.client('shop');
    const cookies = [await login(client.token, client.secret)];
    const firstMs = Date.now();
    // If two sessions began in the same millisecond, either may be taken for the oldest.
    await until(() => Date.now() > firstMs, { everyMs: 1 });
    for (let n = 1; n < 21; n++) cookies.push(await login(client.token, client.secret));
    assert.deepEqual(
      await Promise.all([cookies[0], cookies[1], cookies[20]].map((each) => isIn(each ?? ''))),
      [false, true, true],
    );
  });

  test('does not count among the twenty after its log-out', async () => {
    const client = await bus.client('shop');
    const cookie = await login(client.token, client.secret);
    for (let n = 0; n < 20; n++) {
      const other = await login(client.token, client.secret);
      await send('/console/logout', { cookie: other, fields: { form_token: await formToken(other) } });
    }
    assert.equal(await isIn(cookie), true);
  });

  test('does nothing for a form of another site, without its token, or with that of another session', async () => {
    const cookie = await login('root', ROOT_KEY);
    const stolen = await formToken(await login('root', ROOT_KEY));
    const form_token = await formToken(cookie);
    const refused = [
      send('/console/logout', { cookie, fields: {} }),
      send('/console/logout', { cookie, fields: { form_token: stolen } }),
      send('/console/logout', {
        cookie,
        fields: { form_token },
        headers: { 'sec-fetch-site': 'cross-site' },
      }),
      send('/console/logout', { cookie, fields: { form_token }, headers: { 'sec-fetch-site': 'none' } }),
    ];
    for (const response of await Promise.all(refused)) assert.equal(response.status, 403);
    assert.equal(await isIn(cookie), true);
  });

  test('takes forms by Origin where the browser sends no Sec-Fetch-Site', async () => {
    const { host, origin } = new URL(bus.url);
    const post = (path: string, fields: Record<string, string>, headers: Record<string, string>) =>
      postRaw(path, new URLSearchParams(fields).toString(), headers);
    const logsIn = (headers: Record<string, string>) => post('/console/login', { ...root }, headers);
    const [cookie = ''] = ((await logsIn({ origin })).headers['set-cookie']?.[0] ?? '').split(';');
    assert.equal(await isIn(cookie), true);
    const refused: Record<string, string>[] = [
      ...[{}, { origin: 'null' }, { origin: '' }, { origin: host }, { origin: 'http://127.0.0.1:1' }],
      ...[{ origin: `${origin}, ${origin}` }, { origin, 'sec-fetch-site': 'cross-site' }],
      { origin, 'sec-fetch-site': 'none' },
    ];
    for (const headers of refused) {
      assert.equal((await logsIn(headers)).status, 403, JSON.stringify(headers));
      const answer = await post(
        '/console/logout',
        { form_token: await formToken(cookie) },
        { ...headers, cookie },
      );
      assert.equal(answer.status, 403, JSON.stringify(headers));
    }
    assert.equal((await post('/console/logout', {}, { origin, cookie })).status, 403);
    assert.equal(await isIn(cookie), true);
    const form_token = await formToken(cookie);
    assert.equal((await post('/console/logout', { form_token }, { origin, cookie })).status, 303);
    assert.equal(await isIn(cookie), false);
  });

  test('is no credential of the API', async () => {
    const cookie = await login('root', ROOT_KEY);
    assert.equal((await send('/topics', { cookie })).status, 401);
    assert.equal((await send('/console/nothing', { cookie })).status, 404);
  });
});

/** Asks without the headers that `fetch` adds, and without decoding the answer. */
function get(path: string, headers: Record<string, string> = {}) {
  return answerTo(request(bus.url + path, { headers }).end());
}

/** Posts a form without the headers that `fetch` adds. */
function postRaw(path: string, form: string, headers: Record<string, string>) {
  const type = { 'content-type': 'application/x-www-form-urlencoded' };
  return answerTo(request(bus.url + path, { method: 'POST', headers: { ...type, ...headers } }).end(form));
}

async function answerTo(sent: ClientRequest) {
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const body = Buffer.concat(await response.toArray());
  return { status: response.statusCode, headers: response.headers, body };
}

test('a link on another site leads to the login, and a script there gets nothing', async () => {
  const link = await get('/console', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' });
  assert.equal(link.status, 303);
  const script = await get('/console', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' });
  assert.equal(script.status, 403);
});

test('every later page takes 20 KB, also of a hundred rows', async () => {
  const [publisher, subscriber] = [await bus.client('publisher'), await bus.client('subscriber')];
  const topics = Array.from({ length: 100 }, (_, n) => `row_${n}`);
  const callback = 'https://127.0.0.1:9/events';
  await subscriber.call('POST', '/subscription', { topics, callback, uuid: 'me', max: 1 });
  await subscriber.call('POST', '/subscriber/pause');
  for (const topic of topics) await publisher.publish(topic, { url: `https://shop.example.com/${topic}` });
  const cookie = await login('root', ROOT_KEY);
  const lists = ['subscribers', 'deliveries', 'dead_letters', 'topics', 'tail', 'triggers', 'joins', 'jobs'];
  const pages = [...lists, 'clients', 'audit', `subscribers/${subscriber.token}`, `topics/${topics[0]}`];
  for (const path of ['/console', ...pages.map((each) => `/console/${each}`)]) {
    const { status, body } = await get(path, { cookie, 'accept-encoding': 'gzip, br' });
    assert.equal(status, 200, path);
    assert.ok(body.length <= 20_000, `${path}: ${body.length} bytes`);
  }
});

test('the first page and its scripts take 60 KB, and the scripts are kept for good', async () => {
  const coded = { 'accept-encoding': 'gzip, br' };
  const page = await get('/console', { ...coded, cookie: await login('root', ROOT_KEY) });
  const text = gunzipSync(page.body).toString();
  const urls = [...text.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(([, url]) => url ?? '');
  assert.equal(urls.length, 7);
  const assets = await Promise.all(urls.map((url) => get(url, coded)));
  for (const { status, headers } of assets) {
    assert.deepEqual([status, headers['content-encoding']], [200, 'br']);
    assert.match(headers['cache-control'] ?? '', /immutable/);
  }
  const bytes = [page, ...assets].reduce((sum, { body }) => sum + body.length, 0);
  assert.ok(bytes <= 60_000, `${bytes} bytes`);
  assert.equal((await get('/console/assets/000000000000/htmx.js')).status, 404);
});
