import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestPage } from '../../harness/browser/browser.ts';
import { answer } from '../../harness/http/receiver.ts';
import { until } from '../../harness/until.ts';
import { as, bus, root, send, shared } from './visits.ts';

/**
 * Fills the form with this action, in which the browser checks nothing, and sends it. Resolves with the status of the
 * answer.
 */
async function fill({ page }: TestPage, action: string, fields: Record<string, string>): Promise<number> {
  await page.waitForSelector(`form[method=post][action="${action}"]`);
  await page.evaluate(`{
    const form = document.querySelector('form[method=post][action="${action}"]');
    form.noValidate = true;
    if (form.closest('details')) form.closest('details').open = true;
    for (const [name, value] of Object.entries(${JSON.stringify(fields)})) {
      if (form.elements[name].type === 'checkbox') form.elements[name].checked = value === 'yes';
      else form.elements[name].value = value;
    }
  }`);
  const sent = page.click(`form[method=post][action="${action}"] button`);
  const [response] = await Promise.all([page.waitForNavigation(), sent]);
  return response?.status() ?? 0;
}

interface Shown {
  error: string;
  /** The name of the field that stands directly before the error. */
  beside: string;
  values: Record<string, string>;
  focus: string;
  isVisible: boolean;
}

/** Returns what a page shows of a refused form. `focus` is the name of the field that has the focus, or an id. */
function shown({ page }: TestPage, action: string): Promise<Shown> {
  return page.evaluate(`{
    const form = document.querySelector('form[method=post][action="${action}"]');
    const named = [...form.elements].filter(({ name, type }) => name && type !== 'hidden');
    const valueOf = ({ type, checked, value }) => (type === 'checkbox' ? (checked ? value : '') : value);
    const { activeElement: focused } = document;
    ({
      error: form.querySelector('[role=alert]')?.textContent ?? '',
      beside: form.querySelector('[role=alert]')?.previousElementSibling?.name ?? '',
      values: Object.fromEntries(named.map((each) => [each.name, valueOf(each)])),
      focus: focused.name || focused.id,
      isVisible: form.checkVisibility(),
    });
  }`) as Promise<Shown>;
}

/** Asserts that a form is refused, and shown again with what was typed, an error, and the focus on a field. */
async function assertAgain(
  visit: TestPage,
  action: string,
  {
    fields,
    error,
    focus,
    status = 400,
  }: { fields: Record<string, string>; error: RegExp; focus: string; status?: number },
): Promise<void> {
  assert.equal(await fill(visit, action, fields), status, action);
  // Browsers move the focus a moment after the page has loaded. `visit.until` would wait for timers of a script.
  await until(() => visit.page.evaluate('document.activeElement !== document.body'), { everyMs: 25 });
  const form = await shown(visit, action);
  assert.match(form.error, error, action);
  const typed = Object.keys(fields).map((name) => [name, form.values[name]]);
  assert.deepEqual([Object.fromEntries(typed), form.focus, form.isVisible], [fields, focus, true], action);
  assert.equal(form.beside, focus, action);
}

/** What to type into each form of root, and what is wrong with it. */
async function formsOfRoot() {
  const client = await bus.client('refused');
  const topic = `topic_of_${client.token.slice(-8)}`;
  await client.publish(topic, { url: 'https://shop.example.com/1' });
  const clients = `/console/clients/${client.token}`;
  const rules = JSON.stringify({
    topic: 'a',
    event: { type: 'noop', url: 'x' },
    schedule: { every: 60_000 },
  });
  const owner = { client: client.token, name: 'nightly' };
  return [
    {
      ...{ page: '/console/clients', action: '/console/clients', error: /^name must/, focus: 'name' },
      fields: { name: 'Not A Name', publish: 'orders, <i>"', subscribe: '-' },
    },
    {
      ...{
        page: '/console/clients?name=refused',
        action: `${clients}/limit`,
        error: /^publish/,
        focus: 'publish',
      },
      fields: { publish: 'Not a topic!', subscribe: 'orders' },
    },
    {
      ...{
        page: '/console/clients?name=refused',
        action: `${clients}/remove`,
        error: /^type refused/,
        focus: 'confirm',
      },
      fields: { confirm: 'another' },
    },
    {
      ...{
        page: '/console/triggers',
        action: '/console/triggers',
        error: /^this is not JSON/,
        focus: 'rules',
      },
      fields: { ...owner, rules: '\n{ "topic": </textarea>' },
    },
    {
      ...{ page: '/console/triggers', action: '/console/triggers', error: /url/, focus: 'rules' },
      fields: { ...owner, rules },
    },
    {
      ...{
        page: '/console/triggers',
        action: '/console/triggers',
        error: /^the name of a trigger/,
        focus: 'name',
      },
      fields: { ...owner, name: 'Not A Name' },
    },
    {
      ...{ page: '/console/joins/?limit=5', action: '/console/joins', error: /sources/, focus: 'rules' },
      fields: { ...owner, rules: '{"sources": []}' },
    },
    {
      ...{
        page: `/console/topics/${topic}`,
        action: `/console/topics/${topic}/give`,
        error: /no client/,
        focus: 'client',
      },
      ...{ fields: { client: 'nobody' }, status: 404 },
    },
    {
      ...{
        page: `/console/topics?name=${topic}`,
        action: `/console/topics/${topic}/remove`,
        error: /^type/,
        focus: 'confirm',
      },
      fields: { confirm: 'another' },
    },
  ];
}

test('rules that somebody else has changed meanwhile are not replaced, and what was typed stays', async () => {
  const client = await bus.client('shared');
  const event = { type: 'noop', url: 'https://shop.example.com/report' };
  const trigger = { topic: 'shared', event, schedule: { every: 60_000 } };
  const join = { sources: [{ topic: 'a' }, { topic: 'b' }], by: 'url', then: { topic: 'shared' } };
  for (const [what, rules, others, mine] of [
    ['trigger', trigger, { paused: true }, { schedule: { every: 90_000 } }],
    ['join', join, { within: 60_000 }, { by: 'data.id' }],
  ] as const) {
    await client.call('PUT', `/${what}s/mine`, rules);
    const read = async () => (await client.call('GET', `/${what}s/mine`)) as object;
    const action = `/console/${what}s`;
    const visit = await as(root, `${action}/mine?client=${client.token}`);
    await client.call('PUT', `/${what}s/mine`, { ...rules, ...others });
    const typed = { rules: JSON.stringify({ ...rules, ...mine }) };
    const error = new RegExp(`somebody has changed this ${what} meanwhile`);
    await assertAgain(visit, action, { fields: typed, error, focus: 'rules' });
    assert.partialDeepStrictEqual(await read(), others);
    // Who has seen that may replace it.
    assert.equal(await fill(visit, action, typed), 200);
    assert.partialDeepStrictEqual(await read(), mine);
    const late = await as(root, `${action}/mine?client=${client.token}`);
    await client.call('DELETE', `/${what}s/mine`);
    assert.equal(await fill(late, action, typed), 404);
    await assert.rejects(read(), { status: 404 });
  }
});

test('limits and subscriptions that somebody else has changed meanwhile are not replaced either', async (t) => {
  const { subscriber, topic, receiver } = await bus.scene({ after: (end) => t.after(end) });
  const { token, secret } = subscriber;
  const limit = `/console/clients/${token}/limit`;
  const visit = await as(root, `/console/clients?name=${token.split('--')[0]}`);
  await bus.root.call('PUT', `/api_tokens/${token}`, { publish: [] });
  const limits = async () => {
    const clients = (await bus.root.call('GET', '/api_tokens')) as { token: string }[];
    const { publish, subscribe } = clients.find((each) => each.token === token) as Record<string, unknown>;
    return { publish, subscribe };
  };
  const typed = { publish: '', subscribe: topic };
  const error = /^somebody has changed these limits meanwhile/;
  await assertAgain(visit, limit, { fields: typed, error, focus: 'publish' });
  assert.deepEqual(await limits(), { publish: [], subscribe: undefined });
  assert.equal(await fill(visit, limit, typed), 200);
  assert.deepEqual(await limits(), { publish: undefined, subscribe: [topic] });

  await bus.root.call('PUT', `/api_tokens/${token}`, {});
  const path = `/console/subscribers/${token}`;
  const own = await as({ user: token, password: secret }, path);
  const { callback } = receiver;
  const topics = [topic, `${topic}_too`];
  await subscriber.call('POST', '/subscription', { topics, callback, uuid: 'me', max: 7 });
  const settings = { topics: topic, max: '100' };
  await assertAgain(own, `${path}/settings`, {
    fields: settings,
    error: /^somebody has changed this subscription meanwhile/,
    focus: 'topics',
  });
  const { topics: kept, max_events } = await subscriber.report();
  assert.deepEqual([kept.toSorted(), max_events], [topics, 7]);
  assert.equal(await fill(own, `${path}/settings`, settings), 200);
  assert.deepEqual((await subscriber.report()).topics, [topic]);
});

describe('a form that is refused', () => {
  for (const javascript of [true, false])
    test(`of root is shown again with what was typed, ${javascript ? 'with' : 'without'} JavaScript`, async () => {
      const visit = await as(root, '/console/clients', { javascript });
      for (const { page, action, ...expected } of await formsOfRoot()) {
        await visit.page.goto(bus.url + page);
        await assertAgain(visit, action, expected);
        if (!javascript) continue;
        // The second time, it is sent from the page that answered the first time.
        await assertAgain(visit, action, expected);
        await visit.assertSound(action, ['aria-valid-attr-value', 'color-contrast']);
      }
    });

  test('of a client is shown again with what was typed', async (t) => {
    const { subscriber, publisher, topic } = await bus.scene({ after: (end) => t.after(end) });
    const path = `/console/subscribers/${subscriber.token}`;
    const visit = await as({ user: subscriber.token, password: subscriber.secret }, path);
    const settings = {
      topics: 'one\ntwo',
      callback: 'ftp://shop.example.com/',
      ordered: 'yes',
      max: '12',
    };
    for (const [fields, error, focus] of [
      [settings, /^callback/, 'callback'],
      [{ ...settings, callback: 'https://shop.example.com/', max: '0', ordered: '' }, /^max/, 'max'],
      [{ ...settings, topics: 'One', ordered: '' }, /^topics/, 'topics'],
    ] as const)
      await assertAgain(visit, `${path}/settings`, { fields, error, focus });
    const other = await as({ user: publisher.token, password: publisher.secret }, `/console/topics/${topic}`);
    const event = { type: 'delete', url: 'https://shop.example.com/?a=1&b="', data: '{"a": 1,}' };
    for (const [fields, error, focus] of [
      [event, /^this is not JSON/, 'data'],
      [{ ...event, data: '{}', url: 'x' }, /url/, 'url'],
    ] as const)
      await assertAgain(other, `/console/topics/${topic}/publish`, { fields, error, focus });
  });

  test('keeps the filter of its list, and works when it is mended', async () => {
    const client = await bus.client('mended');
    const action = `/console/clients/${client.token}/limit`;
    const visit = await as(root, '/console/clients?limit=400');
    assert.equal(await fill(visit, action, { publish: '!' }), 400);
    assert.equal(await fill(visit, action, { publish: 'orders' }), 200);
    assert.ok(visit.page.url().endsWith('/console/clients?limit=400'), visit.page.url());
    assert.equal((await shown(visit, action)).values.publish, 'orders');
  });

  test('is the one that was sent, of several that look alike', async () => {
    const client = await bus.client('delaying');
    for (const n of [1, 2])
      await client.publish('twice', { id: `late${n}`, url: 'https://shop.example.com/1', delay: 3_600_000 });
    const visit = await as({ user: client.token, password: client.secret }, '/console/topics/twice');
    const button = 'form:has([value=late2]) button';
    await visit.page.evaluate(`document.querySelector('[value=late2]').value = 'gone'`);
    const [response] = await Promise.all([
      visit.page.waitForNavigation(),
      visit.page.click('form:has([value=gone]) button'),
    ]);
    assert.equal(response?.status(), 404);
    assert.equal(await visit.page.$(`${button.replace(' button', '')} [role=alert]`), null);
    // The page has no form that takes back the event `gone`, so it begins with the error, which has the focus.
    assert.match(await visit.text('main > [role=alert]:first-child'), /^no event with this id waits/);
    assert.equal(await visit.page.evaluate('document.activeElement.id'), 'refusal');
    await visit.assertSound();
  });

  test('without fields leaves its error above the page, where refreshes keep it', async () => {
    const client = await bus.client('limited_to_none');
    const event = { type: 'noop', url: 'https://shop.example.com/1' };
    await client.call('PUT', '/triggers/limited', {
      topic: 'limited',
      event,
      schedule: { every: 3_600_000 },
    });
    await bus.root.call('PUT', `/api_tokens/${client.token}`, { publish: [] });
    const visit = await as(root, `/console/triggers/limited?client=${client.token}`);
    await visit.submit('form[action$="/fire"] button');
    const refreshed = `new Promise((resolve) => document.addEventListener('htmx:after:swap', resolve))`;
    await visit.page.evaluate(refreshed);
    assert.match(await visit.text('main > [role=alert]:first-child'), /may not publish to limited/);
    await visit.assertSound();
  });

  test('is refused if it would change nothing, as no dead letter is selected', async (t) => {
    const { subscriber, publisher, topic, receiver } = await bus.scene(t);
    receiver.answers(answer.status(500), answer.status(500));
    await publisher.publish(topic, { url: 'https://shop.example.com/1' });
    await until(async () => (await subscriber.report()).dead_letters.batches === 1);
    const visit = await as(root, `/console/dead_letters?subscriber=${subscriber.token}`);
    await visit.page.click('.confirm summary');
    await visit.submit('.confirm button[value=purge]');
    assert.match(await visit.text('form [role=alert]'), /^select a dead letter first/);
    assert.equal((await subscriber.report()).dead_letters.batches, 1);
  });

  test('is in the audit with the code of its error', async () => {
    const client = await bus.client('in_audit');
    const visit = await as(root, '/console/clients');
    await fill(visit, `/console/clients/${client.token}/remove`, { confirm: 'x' });
    await until(async () => {
      const query = '/audit?limit=1&action=client.delete';
      const [entry] = (await bus.root.call('GET', query)) as {
        status: number;
        code: string;
        target: string;
      }[];
      return entry?.status === 400 && entry.code === 'bad_body' && entry.target === client.token;
    });
  });

  test('is a page of its own if the page on which it was is unknown, or not for its sender', async () => {
    const cookie = await shared(root);
    const page = await (await send('/console', { cookie })).text();
    const form_token = /name="form_token" value="([^"]+)"/.exec(page)?.[1] ?? '';
    for (const from of [
      undefined,
      '/console/nothing',
      'https://evil.example.com/',
      '/console/topics/%zz',
      '::',
    ]) {
      const fields = { form_token, name: 'Not A Name', ...(from !== undefined && { from }) };
      const response = await send('/console/clients', { cookie, fields });
      assert.equal(response.status, 400, from);
      assert.match(await response.text(), /<h1>The client that the request is about/, from);
    }
  });
});
