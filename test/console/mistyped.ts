import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { as, bus, htmlFor, login, PATHS, root, send, textFor } from './visits.ts';

const MISTYPED = ['/console/nothing', '/console/nothing/', '/console/subscribers/nobody/x'];
const ACCEPT = 'text/html,application/xhtml+xml,*/*;q=0.8';

test('each page of the console is also served with a slash at the end of its address', async () => {
  const cookie = await login(root.user, root.password);
  for (const path of PATHS) {
    const response = await send(`${path}/`, { cookie });
    assert.equal(response.status, 200, path);
    assert.ok((await response.text()).includes(`<a href="${path}" aria-current="page">`), path);
  }
});

describe('an address of the console that does not exist', () => {
  test('is a page with a way back for root, with the navigation', async () => {
    for (const path of MISTYPED) {
      const main = await textFor(root, path, 404);
      assert.match(main, /^There is nothing here.*there is no \/console\//, path);
      assert.doesNotMatch(main, /docs|GET/, path);
      assert.match(await htmlFor(root, path, 404), /<header.*Subscribers.*root.*<\/header>/s, path);
    }
    const visit = await as(root, MISTYPED[0]);
    await visit.assertSound();
    await visit.submit('main a[href="/console"]');
    assert.equal(visit.page.url(), `${bus.url}/console`);
  });

  test('names the page that is near it', async () => {
    const page = await (await send('/console/client', { headers: { accept: ACCEPT } })).text();
    assert.match(page, /there is no \/console\/client; did you mean \/console\/clients\?/);
  });

  test('lets somebody who is logged in log out', async () => {
    const cookie = await login(root.user, root.password);
    const page = await (await send('/console/nothing', { cookie, headers: { accept: ACCEPT } })).text();
    const [, form_token = ''] = /action="\/console\/logout"><input [^>]*value="([^"]+)"/.exec(page) ?? [];
    const { status, headers } = await send('/console/logout', { cookie, fields: { form_token } });
    assert.deepEqual([status, headers.get('location')], [303, '/console/login']);
  });

  test('is a page without navigation for a stranger, whom its link leads to the login', async () => {
    for (const path of MISTYPED) {
      const response = await send(path, { headers: { accept: ACCEPT } });
      assert.equal(response.status, 404, path);
      const page = await response.text();
      const [, header = ''] = /<header[^>]*>(.*)<\/header>/s.exec(page) ?? [];
      assert.equal(header.replace(/<[^>]*>/g, '').trim(), 'Routemaster', path);
      assert.match(page, /<main.*<a href="\/console">/s);
    }
    assert.match((await send('/console', {})).headers.get('location') ?? '', /^\/console\/login/);
  });

  test('is a page too if the path cannot be decoded or takes other methods', async () => {
    for (const [path, status] of [
      ['/console/topics/%zz', 400],
      ['/console/logout', 405],
    ] as const) {
      const response = await send(path, { headers: { accept: ACCEPT } });
      assert.deepEqual([response.status, kindOf(response)], [status, 'text/html; charset=utf-8'], path);
    }
  });

  test('is a page for a browser alone, and only below /console', async () => {
    const kinds = async (path: string, accept: string) => kindOf(await send(path, { headers: { accept } }));
    for (const accept of ['TEXT/HTML', 'application/xml , text/html ;level=1;q=0.1'])
      assert.equal(await kinds('/console/nothing', accept), 'text/html; charset=utf-8', accept);
    for (const accept of ['*/*', 'application/json', 'text/html;q=0', 'TEXT/HTML; level=1; Q=0.0 , */*'])
      assert.equal(await kinds('/console/nothing', accept), 'application/problem+json', accept);
    for (const path of ['/nothing', '/consoles', '/topics/nothing/console/x'])
      assert.equal(await kinds(path, ACCEPT), 'application/problem+json', path);
  });
});

test('the page of a list whose filter is refused leads to the whole list', async () => {
  for (const list of ['subscribers?state=x', 'topics?sort=x', 'deliveries?state=x', 'audit?limit=0'])
    assert.equal(firstLink(await htmlFor(root, `/console/${list}`, 400)), `/console/${list.split('?')[0]}`);
});

test('the page of a thing that does not exist leads to the list of those that there are', async () => {
  const { token } = await bus.client('idle');
  for (const [list, name, query = ''] of [
    ...[
      ['topics', 'Topics'],
      ['subscribers', 'Subscribers'],
      ['deliveries', 'Deliveries'],
    ],
    ['triggers', 'Triggers', `?client=${token}`],
    ['joins', 'Joins', `?client=${token}`],
  ]) {
    const path = `/console/${list}/nothing${query}`;
    const main = await textFor(root, path, 404);
    assert.match(main, new RegExp(`${name} · Overview$`));
    assert.equal(firstLink(await htmlFor(root, path, 404)), `/console/${list}`);
    assert.doesNotMatch(main, /GET/);
  }
});

test('the page of a trigger or join whose address names no client leads to the list', async () => {
  for (const [list, said] of [
    ['triggers', /^Whose trigger\?.*nothing.*: Triggers\./],
    ['joins', /^Whose join\?.*nothing.*: Joins\./],
  ] as const) {
    for (const query of ['', '?client=']) {
      const path = `/console/${list}/nothing${query}`;
      assert.match(await textFor(root, path, 400), said);
      assert.equal(firstLink(await htmlFor(root, path, 400)), `/console/${list}`);
    }
  }
});

test('a client that may not see a page is told as whom it is logged in', async () => {
  const { token, secret } = await bus.client('curious');
  const response = await send('/console/audit', { cookie: await login(token, secret) });
  assert.equal(response.status, 403);
  assert.match(await response.text(), /you are logged in as the client curious, who may not/);
});

/** Returns the address, without its query, of the first link of the main part. */
function firstLink(page: string): string | undefined {
  return /<main.*?<a href="([^"?]+)/s.exec(page)?.[1];
}

function kindOf({ headers }: Response): string | null {
  return headers.get('content-type');
}
