import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { type TestContext, test } from 'node:test';
import { queryObjects } from 'node:v8';
import { Pool } from 'undici';
import { accept, KEEP_FOR_MINUTES, KeepingHost } from '../../../harness/http/keeping_host.ts';
import { sender } from '../../../harness/http/sender.ts';
import { freePort } from '../../../harness/processes/ports.ts';
import { until } from '../../../harness/until.ts';
import { clock } from '../../../src/clock.ts';
import { UnfinishedAnswers } from '../../../src/delivering/sending/unfinished_answers.ts';

const hosts = (t: TestContext, count: number, answer = accept) =>
  Promise.all(Array.from({ length: count }, () => KeepingHost.start(t, answer)));
const openAt = (all: KeepingHost[]) => all.reduce((sum, { open }) => sum + open.size, 0);

test('a subscriber that changes its callback to another host leaves no connection behind', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'] });
  const all = await hosts(t, 20);
  for (const { callback } of all)
    assert.deepEqual(await Promise.all([send(callback), send(callback)]), [
      { accepted: true, status: 204 },
      { accepted: true, status: 204 },
    ]);
  await until(() => openAt(all.slice(0, -1)) === 0, { what: 'they are closed' });
  assert.equal(openAt(all), 2);
});

test('a host that one of two subscribers leaves keeps its connection', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'] });
  const [shared, other] = (await hosts(t, 2)) as [KeepingHost, KeepingHost];
  await send(shared.callback, { token: 'one' });
  await send(shared.callback, { token: 'other' });
  const before = [...shared.open];
  await send(other.callback, { token: 'one' });
  await until(() => other.open.size === 1);
  await send(shared.callback, { token: 'other' });
  assert.ok(before.every(({ destroyed }) => !destroyed));
});

test('a delivery under way is finished when its subscriber changes to another host', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'] });
  const held = Promise.withResolvers<void>();
  const former = await KeepingHost.start(
    t,
    (request, response) => void held.promise.then(() => accept(request, response)),
  );
  const [present] = (await hosts(t, 1)) as [KeepingHost];
  const underWay = send(former.callback);
  await until(() => former.open.size === 1);
  await send(present.callback);
  held.resolve();
  assert.deepEqual(await underWay, { accepted: true, status: 204 });
  await until(() => former.open.size === 0, { what: 'it is closed' });
});

test('connections are kept for seconds, whatever a subscriber asks for', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'] });
  const [host] = (await hosts(t, 1)) as [KeepingHost];
  await send(host.callback);
  await until(() => host.open.size === 0, { what: 'it is closed' });
});

test('a busy connection is replaced after five minutes, and the name resolved again', async (t) => {
  let resolved = 0;
  const resolve = async () => {
    resolved++;
    return ['127.0.0.1'];
  };
  const send = sender(t, { allow: ['127.0.0.1'], resolve });
  const [host] = (await hosts(t, 1)) as [KeepingHost];
  const callback = host.callback.replace('127.0.0.1', 'hooks.example');
  const accepted = { accepted: true, status: 204 };
  let ageMs = 0;
  t.mock.method(clock, 'monotonicMs', () => performance.now() + ageMs);
  for (let n = 0; n < 10; n++) assert.deepEqual(await send(callback), accepted);
  const [before, former] = [resolved, [...host.open]];
  for (ageMs = 0; ageMs < 300_000; ageMs += 60_000) assert.deepEqual(await send(callback), accepted);
  assert.equal(resolved, before);
  for (let n = 0; n < 10; n++) assert.deepEqual(await send(callback), accepted);
  assert.ok(resolved > before);
  await until(() => former.every(({ destroyed }) => destroyed), { what: 'the former ones are closed' });
  assert.deepEqual(await send(callback), accepted);
});

test('of all subscribers a limited number of connections is kept, those used last', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'], keptConnections: 5 });
  const all = await hosts(t, 12);
  for (const [index, { callback }] of all.entries())
    assert.deepEqual(await send(callback, { token: `subscriber_${index}` }), { accepted: true, status: 204 });
  await until(() => openAt(all) <= 5, { what: 'the others are closed' });
  assert.deepEqual(
    all.map(({ open }) => open.size),
    all.map((_, index) => Number(index >= 7)),
  );
  const [first] = all as [KeepingHost];
  assert.deepEqual(await send(first.callback, { token: 'subscriber_0' }), { accepted: true, status: 204 });
});

test('hosts that cannot be reached leave nothing behind, also while they have subscribers', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'] });
  const before = queryObjects(Pool);
  const port = await freePort();
  for (let n = 0; n < 10; n++) {
    const unreachable = [`http://127.0.0.1:${port}/`, `https://10.0.0.${n}/`, `https://host${n}.invalid/`];
    for (const callback of unreachable)
      assert.equal((await send(callback, { token: `${callback}${n}` })).accepted, false);
  }
  await until(() => queryObjects(Pool) <= before, { what: 'no pool is left' });
});

test('answers that never end hold a limited number of connections', async (t) => {
  const send = sender(t, { allow: ['127.0.0.1'] });
  const endless: RequestListener = (_, response) =>
    void response.writeHead(200, KEEP_FOR_MINUTES).write('and then');
  const culprit = await KeepingHost.start(t, endless);
  for (let n = 0; n < 30; n++)
    assert.deepEqual(await send(culprit.callback), { accepted: true, status: 200 });
  assert.ok(culprit.maxOpen <= 20, `${culprit.maxOpen} connections`);
  await until(() => culprit.open.size === 0, { what: 'they are closed' });
});

test('of a subscriber’s unfinished answers the oldest are cut, and none of others', () => {
  const answers = new UnfinishedAnswers();
  const cut: string[] = [];
  const begin = (subscriber: string, name: string) =>
    answers.begin({ subscriber, cut: () => void cut.push(name) });
  begin('other', 'first of all');
  for (let n = 0; n < 20; n++) begin('culprit', `${n}`);
  assert.deepEqual(cut, ['0', '1', '2', '3']);
});
