import assert from 'node:assert/strict';
import { aroundTests } from '../../harness/around_tests.ts';
import { TestBrowser, type TestPage } from '../../harness/browser/browser.ts';
import { answer } from '../../harness/http/receiver.ts';
import { ROOT_KEY, VIEWER_KEY } from '../../harness/processes/bus_environment.ts';
import { RunningBus, type Scene } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';

export const HOSTILE = `<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202e`;
/** A word that is wider than a narrow window. */
const WIDE = 'w'.repeat(100);
/** A megabyte that a callback answers. */
const LONG = 'x'.repeat(1_048_576);
export const bus = RunningBus.forTests({
  env: { ROUTEMASTER_VIEWER_KEY: VIEWER_KEY, ROUTEMASTER_MAX_ATTEMPTS: '2' },
});
export const browser = TestBrowser.forTests();
export const root = { user: 'root', password: ROOT_KEY };
export let scene: Scene;

export const PATHS = [
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

export const ends: (() => unknown)[] = [];
aroundTests(
  async () => {
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
      receiver.answers(answer.text(500, HOSTILE + LONG), answer.text(500, HOSTILE + LONG));
      await publisher.publish(topic, { url: `https://shop.example.com/${WIDE}`, data: { note: HOSTILE } });
      await until(async () => (await subscriber.report()).dead_letters.batches === letters);
    }
  },
  () => Promise.all(ends.map((end) => end())),
);
/** Fields of forms, such as might be taken. */
export const HARMLESS = {
  ...{ name: 'mine', confirm: 'x', id: 'e1', type: 'noop', url: 'https://shop.example.com' },
  ...{ topics: '', callback: 'https://shop.example.com' },
};

interface Login {
  user: string;
  password: string;
}

interface Sent {
  cookie?: string;
  fields?: Record<string, string>;
  headers?: Record<string, string>;
}

/** Sends a request as a browser would, with a session. */
export function send(path: string, { cookie, fields, headers = {} }: Sent): Promise<Response> {
  return fetch(bus.url + path, {
    ...(fields && { method: 'POST', body: new URLSearchParams(fields) }),
    redirect: 'manual',
    headers: { 'sec-fetch-site': 'same-origin', ...(cookie && { cookie }), ...headers },
  });
}

/** Returns the cookie of a new session. */
export async function login(user: string, password: string): Promise<string> {
  const response = await send('/console/login', { fields: { user, password } });
  assert.equal(response.status, 303, await response.text());
  return (response.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
}

/** The cookies of sessions, by user. Each user logs in once, and not by the form, which `login.ts` tests. */
const sessions = new Map<string, string>();

/** The tokens of the forms of each session, by cookie. */
const tokens = new Map<string, string>();

/** Returns the cookie of the session that the tests share. */
export async function shared({ user, password }: Login): Promise<string> {
  const cookie = sessions.get(user) ?? (await login(user, password));
  sessions.set(user, cookie);
  return cookie;
}

/** Returns the HTML of a page, for tests that need no browser: to show a page in it takes ten times as much CPU. */
export async function htmlFor(who: Login, path: string, status = 200): Promise<string> {
  const response = await send(path, { cookie: await shared(who), headers: { accept: 'text/html' } });
  assert.equal(response.status, status, path);
  return response.text();
}

/** Returns the text of the main part of a page, like `TestPage.text('main')`, but without the browser. */
export async function textFor(who: Login, path: string, status = 200): Promise<string> {
  const main = /<main.*<\/main>/s.exec(await htmlFor(who, path, status))?.[0] ?? '';
  return main
    .replace(/<[^>]*>/g, '')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Shows a page of the console to a user. */
export async function as(who: Login, path = '/console', options = {}): Promise<TestPage> {
  const visit = await browser.page(options);
  const cookie = await shared(who);
  const [name = '', value = ''] = cookie.split('=');
  await visit.resume(bus.url + path, { name, value, domain: new URL(bus.url).hostname, path: '/console' });
  return visit;
}

/** The newest batch of a scene's subscriber. */
export async function newest({ subscriber }: Scene): Promise<{ id: string; state: string }> {
  const batches = (await subscriber.call('GET', '/deliveries?limit=1')) as { id: string; state: string }[];
  return batches[0] ?? { id: '', state: '' };
}

export async function letterId(): Promise<string> {
  const letters = (await bus.root.call('GET', '/dead_letters')) as { id: string }[];
  return letters[0]?.id ?? '';
}

/** Sends a form that no page offers this user. Resolves with the status. */
export async function post(who: Login, path: string, fields: Record<string, string> = {}): Promise<number> {
  const cookie = await shared(who);
  const token =
    tokens.get(cookie) ?? /name="form_token" value="([^"]+)"/.exec(await htmlFor(who, '/console'))?.[1];
  tokens.set(cookie, token ?? '');
  return (await send(path, { cookie, fields: { form_token: token ?? '', ...fields } })).status;
}
