import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import { beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Api } from '../../harness/http/api.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { docsPage } from '../../src/openapi/docs_page.ts';
import { documentOf, pageOf } from './document.ts';

const run = promisify(execFile);
const unescaped = (text: string) =>
  text
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

const TRIGGER =
  '{"topic":"products","schedule":{"every":60000},"event":{"type":"noop","url":"https://a.example/1"}}';
const JOIN = '{"sources":[{"topic":"paid"},{"topic":"packed"}],"by":"data.order","then":{"topic":"ready"}}';

const { text: page, headers } = await pageOf();
const document = await documentOf();
const lines = [...page.matchAll(/<pre><code>(curl .*)<\/code><\/pre>/g)].map(([, line = '']) =>
  unescaped(line),
);

describe('the page of the documentation', () => {
  test('has every call with its fields, its errors and a line for curl', () => {
    const calls = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${path}`,
        operation,
      })),
    );
    assert.equal(lines.length, calls.length);
    for (const { name, operation } of calls) {
      const section = page.split(`<h3 id="${operation.operationId}">`)[1]?.split('</section>')[0] ?? '';
      assert.ok(section.includes(`<code>${name}</code>`), name);
      for (const parameter of operation.parameters ?? [])
        assert.ok(section.includes(`<code>${parameter.name}</code>`));
      const schema = operation.requestBody?.content['application/json']?.schema;
      for (const field of Object.keys(schema?.properties ?? {}))
        assert.ok(section.includes(`<code>${field}</code>`));
      for (const status of Object.keys(operation.responses).filter((each) => Number(each) < 400))
        assert.ok(section.includes(`<strong>${status}</strong>`), `${name} ${status}`);
      assert.match(section, /Errors: .*<code>bad_header<\/code>/);
    }
    for (const [, anchor = ''] of page.matchAll(/href="#([^"]+)"/g))
      assert.ok(page.includes(`id="${anchor}"`), anchor);
  });

  test('has contents that lead to each chapter and each call', () => {
    const [, contents = ''] = /<nav>([\s\S]*)<\/nav>/.exec(page) ?? [];
    const [, main = ''] = /<main>([\s\S]*)<\/main>/.exec(page) ?? [];
    const anchors = [...main.matchAll(/<h([23])(?: id="([^"]*)")?>/g)].map(([, , id = 'none']) => id);
    assert.ok(anchors.length > document.tags.length);
    for (const anchor of anchors) assert.ok(contents.includes(`<a href="#${anchor}">`), anchor);
    assert.deepEqual(anchors, [...new Set(anchors)]);
  });

  test('has the fields of what lies deeper, and what they may be', () => {
    for (const row of [
      '<td><code>events.sent</code></td><td>integer</td>',
      '<td><code>dropped.untold</code></td><td>integer</td>',
      '<td><code>history[].status</code></td><td>integer or null</td>',
      '<td><code>timeout</code></td><td>integer 0 to 3600000 or null, optional</td>',
      '<td><code>topics</code></td><td>list of string</td>',
    ])
      assert.ok(page.includes(row), row);
  });

  test('needs no script, loads nothing, and has the one style that its policy allows', () => {
    assert.doesNotMatch(page, /<script|<link|<img|<iframe|\son\w+=|\sstyle=|javascript:/i);
    const [, style = ''] = /<style>([\s\S]*)<\/style>/.exec(page) ?? [];
    const digest = hash('sha256', style, 'base64');
    assert.equal(
      headers['Content-Security-Policy'],
      `default-src 'none'; style-src 'sha256-${digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
  });

  test('says to paste where the bus is that served it', async () => {
    const busOf = async (headers: Record<string, string>, env?: Record<string, string>) =>
      /<code>BUS=(.*?) +# where the bus is\n/.exec((await pageOf(headers, env)).text)?.[1];
    assert.equal(await busOf({ host: 'localhost:3000' }), 'http://localhost:3000');
    const forwarded = { host: 'a-very-long-name.of.the.bus.example.net', 'x-forwarded-proto': 'https' };
    assert.equal(await busOf(forwarded), `http://${forwarded.host}`);
    const env = { ROUTEMASTER_TRUSTED_PROXIES: '1' };
    assert.equal(await busOf(forwarded, env), `https://${forwarded.host}`);
    for (const host of ['', 'x;reboot', '$(reboot)', '<script>', 'me@bus.test', 'bus.test/x'])
      assert.equal(await busOf({ host }), 'https://bus.example.com', host);
  });

  test('marks a call that is another name of one before it', () => {
    const [, contents = ''] = /<nav>([\s\S]*)<\/nav>/.exec(page) ?? [];
    for (const [name, same] of [
      ['POST /subscriber', 'POST /subscription'],
      ['GET /subscribers', 'GET /subscriptions'],
      ['DELETE /topic/{name}', 'DELETE /topics/{name}'],
    ])
      assert.ok(contents.includes(`<code>${name}</code></a> <small>alias of ${same}</small></li>`), name);
    assert.equal(contents.split('alias of').length, page.split('Another name for').length);
  });

  test('shows whatever the document says as text', async () => {
    const hostile = `<script>alert("1")</script>&'\u202e`;
    const spoiled = JSON.parse(JSON.stringify(document), (key, value) =>
      ['description', 'summary', 'title', 'example'].includes(key) && typeof value === 'string'
        ? hostile
        : value,
    );
    const shown = await docsPage(spoiled);
    assert.doesNotMatch(shown, /<script|\u202e/);
    assert.ok(shown.includes('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;'));
  });
});

describe('every line for curl', () => {
  const api = new Api({ env: { ROUTEMASTER_CALLBACK_ALLOW: '203.0.113.0/24' } });
  beforeEach(() => api.reset());

  /**
   * Makes the things that a line is about, such as a client and a topic. Resolves with the shell variables for them.
   */
  async function variables(line: string): Promise<Record<string, string>> {
    const made = await api.call('POST', '/api_tokens', { as: 'root', body: '{"name":"shop"}' });
    const { token, secret } = JSON.parse(made.text);
    api.enter({ name: 'shop', token, secret });
    const call = async (path: string, body: string, method = 'POST') => {
      const { status, text } = await api.call(method, path, { as: 'shop', body });
      assert.ok(status < 300, text);
    };
    const dies = line.includes('/dead_letters');
    const settings = dies ? { max: 1 } : { timeout: 3_600_000 };
    const subscription = { topics: ['products'], callback: 'https://203.0.113.9/', ...settings };
    await call('/subscription', JSON.stringify(subscription));
    await call('/topics/products', '{"type":"noop","url":"https://a.example/1"}');
    const waiting = { id: 'waits', type: 'noop', url: 'https://a.example/2', delay: 3_600_000 };
    const waits = line.includes('/delayed/');
    if (waits) await call('/topics/products', JSON.stringify(waiting));
    if (line.includes('/joins/')) await call('/joins/order', JOIN, 'PUT');
    if (line.includes('/triggers/')) await call('/triggers/daily_report', TRIGGER, 'PUT');
    const listed = async (path: string) =>
      JSON.parse((await api.call('GET', path, { as: 'root' })).text)[0]?.id;
    if (dies) await buryAll(api.store);
    const ID = waits ? waiting.id : await listed(/\/(?:jobs|deliveries)/.exec(line)?.[0] ?? '/dead_letters');
    const BUS = `http://127.0.0.1:${api.port}`;
    return { BUS, ROOT_KEY, SHOP: `${token}:${secret}`, TOKEN: token, ID: ID ?? '' };
  }

  for (const line of lines) {
    test(`works when it is pasted: ${line.slice(0, 100)}`, async () => {
      // The bus would look up a name of example.com, and the machine may have no DNS.
      const reachable = line.replace('https://billing.example.com/events', 'https://203.0.113.9/events');
      const env = { PATH: process.env.PATH ?? '', ...(await variables(line)) };
      const command = reachable.replace('curl ', "curl -sS -o /dev/null -w '%{http_code}' ");
      const { stdout } = await run('bash', ['-euc', command], { env });
      assert.match(stdout, /^2\d\d$/, command);
    });
  }
});
