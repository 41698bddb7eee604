import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { until } from '../../../harness/until.ts';
import { StorageFullError, TimeLimitError } from '../../../packages/client/src/index.ts';
import { hang, problem, ScriptedWeb, say } from './scripted_web.ts';

const URL = 'https://shop.example.com/orders/1';

test('an attempt without an answer is given up and made again', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client({ attemptTimeoutMs: 500 });
  web.answers(hang);
  await bus.updated('orders', URL);
  assert.equal(web.requests.length, 2);
  await until(() => web.givenUp === 1);
});

test('an attempt may last as long as its call', async () => {
  const web = await ScriptedWeb.start();
  for (const attemptTimeoutMs of [Number.POSITIVE_INFINITY, 2 ** 31]) {
    web.answers((response) => void setTimeout(() => response.writeHead(204).end(), 100));
    await web.client({ attemptTimeoutMs }).updated('orders', URL);
    assert.equal(web.requests.splice(0).length, 1);
  }
  for (const attemptTimeoutMs of [0, -1, Number.NaN])
    assert.throws(() => web.client({ attemptTimeoutMs }), RangeError);
});

test('a time limit ends a publish, and says whether it may be done', async () => {
  const web = await ScriptedWeb.start();
  web.answers(problem(503, 'storage_full', { headers: { 'retry-after': '100' } }));
  await assert.rejects(web.client({ timeoutMs: 1000 }).updated('orders', URL), (error) => {
    assert.ok(error instanceof TimeLimitError);
    assert.deepEqual([error.code, error.mayBeDone], ['time_limit', false]);
    assert.match(error.message, /^not done within 1000 ms; /);
    assert.ok(error.cause instanceof StorageFullError);
    return true;
  });
  web.answers(hang);
  const late = web.client({ timeoutMs: 150 }).updated('orders', URL);
  await assert.rejects(late, (error) => {
    assert.ok(error instanceof TimeLimitError && error.mayBeDone);
    assert.equal(error.message, 'not known to be done within 150 ms');
    return true;
  });
});

test('an event that was given up as certainly not done is not sent with the others of its group', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.answers(problem(503, 'storage_full', { headers: { 'retry-after': '2' } }));
  const late = bus.updated('orders', `${URL}/late`, { timeoutMs: 1000 });
  const others = [1, 2].map((n) => bus.updated('orders', `${URL}/${n}`));
  await assert.rejects(late, (error) => error instanceof TimeLimitError && !error.mayBeDone);
  await Promise.all(others);
  assert.deepEqual(
    web.requests.map(({ urls }) => urls),
    [
      [`${URL}/late`, `${URL}/1`, `${URL}/2`],
      [`${URL}/1`, `${URL}/2`],
    ],
  );
  // The bus refuses another body under the same key.
  assert.equal(new Set(web.requests.map(({ key }) => key)).size, 2);
});

test('an event that may be done stays in its group, whose body and key must not change then', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client({ attemptTimeoutMs: 300 });
  const asked = { headers: { 'retry-after': '2' } };
  web.answers(problem(502, 'http_502', asked), problem(503, 'storage_full', asked));
  const late = bus.updated('orders', `${URL}/late`, { timeoutMs: 1000 });
  const other = bus.updated('orders', URL);
  await assert.rejects(late, (error) => error instanceof TimeLimitError && error.mayBeDone);
  await other;
  assert.deepEqual(
    web.requests.map(({ urls, key }) => [urls, key]),
    Array(3).fill([[`${URL}/late`, URL], web.requests[0]?.key]),
  );
});

test('an event that waits for its turn is certainly not done', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const release = web.hold();
  const first = bus.updated('orders', URL);
  await until(() => web.requests.length === 1);
  const late = bus.updated('orders', `${URL}/late`, { timeoutMs: 50 });
  await assert.rejects(late, (error) => error instanceof TimeLimitError && !error.mayBeDone);
  release();
  await first;
  await bus.updated('orders', `${URL}/next`);
  assert.deepEqual(
    web.requests.flatMap(({ urls }) => urls),
    [URL, `${URL}/next`],
  );
});

test('a signal ends one publish of a group, and the request with the last one', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const release = web.hold();
  const [one, two] = [new AbortController(), new AbortController()];
  const publishes = [one, two].map(({ signal }) => bus.updated('orders', URL, { signal }));
  const [first, second] = publishes.map((each) => assert.rejects(each, /enough/));
  await until(() => web.requests.length === 1);
  one.abort(new Error('enough'));
  await first;
  assert.equal(web.givenUp, 0);
  two.abort(new Error('enough'));
  await second;
  await until(() => web.givenUp === 1);
  release();
  await assert.rejects(bus.updated('orders', URL, { signal: one.signal }), /enough/);
  await assert.rejects(bus.pulse({ signal: one.signal }), /enough/);
  assert.equal(web.requests.length, 1);
});

test('thousands of calls may share a signal', async () => {
  const warnings: Error[] = [];
  process.on('warning', (warning) => warnings.push(warning));
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 2000 }, () => bus.updated('orders', URL, { signal })));
  assert.deepEqual(warnings, []);
});

test('calls leave no listener on their signal, since Node would keep a signal of AbortSignal.any for it', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const signal = AbortSignal.any([new AbortController().signal]);
  const listeners = () => getEventListeners(signal, 'abort').length;
  for (const round of [1, 2]) {
    web.answers(say(404));
    const calls = [bus.updated('orders', URL, { signal }), bus.topic('orders', { signal })];
    assert.equal(listeners(), 1, `round ${round}`);
    await Promise.allSettled(calls);
    assert.equal(listeners(), 0, `round ${round}`);
  }
});

test('a time limit that outlasts idempotency keys is refused', async () => {
  const web = await ScriptedWeb.start();
  for (const timeoutMs of [0, -1, 600_000, Number.POSITIVE_INFINITY, Number.NaN]) {
    await assert.rejects(web.client().updated('orders', URL, { timeoutMs }), RangeError);
    // All calls of this client would fail.
    assert.throws(() => web.client({ timeoutMs }), RangeError);
  }
});
