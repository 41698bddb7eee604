import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { until } from '../../../harness/until.ts';
import {
  AlreadyDelayedError,
  BadEventError,
  ClosedError,
  type NewEvent,
  ProblemError,
  PublishAllError,
} from '../../../packages/client/src/index.ts';
import { type Answer, problem, ScriptedWeb, say } from './scripted_web.ts';

const url = (n: number) => `https://shop.example.com/orders/${n}`;
const urls = (count: number, from = 0) => Array.from({ length: count }, (_, n) => url(from + n));

test('what is published at once rides in one request, in order', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  await Promise.all(urls(100).map((each) => bus.updated('orders', each)));
  assert.deepEqual(
    web.requests.map((each) => each.urls),
    [urls(100)],
  );
});

test('what is published meanwhile rides in the next one', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const release = web.hold();
  const first = bus.updated('orders', url(0));
  await until(() => web.requests.length === 1);
  const others = urls(50, 1).map((each) => bus.updated('orders', each));
  release();
  await Promise.all([first, ...others]);
  assert.deepEqual(
    web.requests.map((each) => each.urls),
    [[url(0)], urls(50, 1)],
  );
});

test('each request has a key of its own, and topics do not wait for each other', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const release = web.hold();
  const publishes = ['orders', 'parcels', 'invoices'].map((topic) => bus.updated(topic, url(1)));
  await until(() => web.requests.length === 3);
  release();
  await Promise.all(publishes);
  assert.equal(new Set(web.requests.map(({ key }) => key)).size, 3);
  for (const { key } of web.requests) assert.match(key ?? '', /^"[\w-]{36}"$/);
});

test('a request has 1,000 events and a MiB at most, or one event', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  await Promise.all(urls(2500).map((each) => bus.updated('orders', each)));
  assert.deepEqual(
    web.requests.map((each) => each.urls.length),
    [1000, 1000, 500],
  );
  const data = 'x'.repeat(400_000);
  await Promise.all([
    ...urls(3).map((each) => bus.updated('orders', each, { data })),
    bus.noop('orders', url(3)),
  ]);
  assert.deepEqual(
    web.requests.slice(3).map((each) => each.urls.length),
    [2, 2],
  );
  await bus.updated('orders', url(4), { data: 'x'.repeat(2_000_000) });
});

test('events with a time of their own ride apart, 500 at a time, in their places', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  await Promise.all([
    bus.noop('orders', url(1)),
    ...urls(700).map((each) => bus.noop('orders', each, { delay: 5 })),
    bus.noop('orders', url(2), { at: 5 }),
    bus.noop('orders', url(3)),
  ]);
  assert.deepEqual(
    web.requests.map((each) => each.urls.length),
    [1, 500, 201, 1],
  );
  assert.ok(web.requests[1]?.body.includes('"delay":5'));
});

test('an event whose id waits already is refused alone', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.answers(problem(409, 'already_delayed', { index: 1, field: 'id', detail: 'event 1: it waits' }));
  const outcomes = await Promise.allSettled(urls(3).map((each) => bus.noop('orders', each, { delay: 5 })));
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  const { reason } = outcomes[1] as PromiseRejectedResult;
  assert.ok(reason instanceof AlreadyDelayedError);
  assert.deepEqual([reason.detail, reason.members], ['it waits', { field: 'id' }]);
});

test('an event that is refused is refused alone, without its place among strangers', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const refusal = {
    index: 2,
    field: 'type',
    detail: 'event 2: type must be one of create, update, delete, noop',
  };
  web.answers(problem(400, 'bad_event', refusal));
  const outcomes = await Promise.allSettled(urls(5).map((each) => bus.updated('orders', each)));
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  );
  const error = (outcomes[2] as PromiseRejectedResult).reason;
  assert.ok(error instanceof BadEventError);
  assert.equal(error.detail, 'type must be one of create, update, delete, noop');
  assert.deepEqual(error.members, { field: 'type' });
  const [refused, ...accepted] = web.requests;
  assert.deepEqual(
    accepted.flatMap((each) => each.urls),
    [0, 1, 3, 4].map(url),
  );
  assert.ok(accepted.every(({ key }) => key !== refused?.key));
});

test('if the bus does not say which event is at fault, it is found by smaller groups', async () => {
  for (const refusal of [problem(400, 'bad_body'), problem(413, 'body_too_large'), say(413)]) {
    const web = await ScriptedWeb.start();
    const judge: Answer = (response, arrived) =>
      (arrived.urls.includes(url(37)) ? refusal : say(204))(response, arrived);
    web.answers(...Array(40).fill(judge));
    const bus = web.client();
    const outcomes = await Promise.allSettled(urls(100).map((each) => bus.updated('orders', each)));
    assert.deepEqual(
      outcomes.flatMap(({ status }, n) => (status === 'rejected' ? n : [])),
      [37],
    );
    const { reason } = outcomes[37] as PromiseRejectedResult;
    assert.ok(reason instanceof ProblemError);
    assert.ok([400, 413].includes(reason.status));
    assert.ok(web.requests.length < 30, `${web.requests.length} requests`);
  }
});

test('many bad events do not have the good ones sent again and again', async () => {
  const web = await ScriptedWeb.start();
  const judge: Answer = (response, arrived) => {
    const index = arrived.urls.findIndex((each) => each.endsWith('0'));
    const answer = index < 0 ? say(204) : problem(400, 'bad_event', { index });
    answer(response, arrived);
  };
  web.answers(...Array(1000).fill(judge));
  const bus = web.client();
  const outcomes = await Promise.allSettled(urls(1000).map((each) => bus.updated('orders', each)));
  assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 100);
  const sent = web.requests.reduce((sum, each) => sum + each.urls.length, 0);
  // If each request carried all events that are left, it would be 50,000.
  assert.ok(sent < 5000, `${sent} events were sent`);
});

test('an error that is not about one event is that of all', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.answers(problem(403, 'topic_claimed'));
  const outcomes = await Promise.allSettled(urls(3).map((each) => bus.updated('orders', each)));
  assert.ok(outcomes.every(({ status }) => status === 'rejected'));
  assert.equal(web.requests.length, 1);
});

test('an event that is no JSON is refused alone', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const bad = bus.updated('orders', url(1), { data: 1n });
  const good = bus.updated('orders', url(2));
  await assert.rejects(bad, TypeError);
  await good;
});

test('an event that is no object, and a signal that is none, are refused', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const event: NewEvent = { type: 'update', url: url(1) };
  const message = 'the event must be an object, such as { type, url }; publishAll takes several events';
  for (const wrong of [[event], 'update'] as unknown as NewEvent[])
    await assert.rejects(bus.publish('orders', wrong), new TypeError(message));
  const signal = new AbortController() as unknown as AbortSignal;
  const noSignal = new TypeError('signal must be an AbortSignal, such as that of an AbortController');
  await assert.rejects(bus.publish('orders', event, { signal }), noSignal);
  await assert.rejects(bus.pause({ signal }), noSignal);
  assert.deepEqual(web.requests, []);
});

test('a time that is no number is refused, as the bus would publish the event at once', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const wrong = [{ delay: Number.NaN }, { at: Number.POSITIVE_INFINITY }, { timestamp: Number('x') }];
  const outcomes = await Promise.allSettled(wrong.map((times) => bus.updated('orders', url(1), times)));
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.status === 'rejected' ? String(outcome.reason) : outcome.status)),
    ['delay must be …, not NaN', 'at must be …, not Infinity', 'timestamp must be …, not NaN'].map(
      (text) => `RangeError: ${text.replace('…', 'a whole number of milliseconds')}`,
    ),
  );
  assert.deepEqual(web.requests, []);
});

test('flush waits for what was published before, and never rejects', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  await bus.flush();
  web.answers(problem(403, 'topic_claimed'), say(204));
  const settled: string[] = [];
  const refused = assert.rejects(bus.updated('claimed', url(1))).then(() => settled.push('refused'));
  const stored = bus.updated('orders', url(2)).then(() => settled.push('stored'));
  await bus.flush();
  // What the program does with each outcome was done before: it may count failures, and end after the flush.
  assert.deepEqual(settled.sort(), ['refused', 'stored']);
  await Promise.all([refused, stored]);
});

test('thousands of calls may flush at once', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const release = web.hold();
  const before = process.memoryUsage().rss;
  const flushes = urls(4000).map((each) => {
    void bus.updated('orders', each);
    return bus.flush();
  });
  const mib = (process.memoryUsage().rss - before) / 1_048_576;
  release();
  await Promise.all(flushes);
  // With a list of publishes for each flush, it was 400 MiB.
  assert.ok(mib < 100, `${mib.toFixed()} MiB`);
});

test('a signal ends 160,000 publishes in less time than their calls took', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  web.hold();
  const ending = new AbortController();
  const beganMs = performance.now();
  const publishes = urls(160_000).map((each) => bus.updated('orders', each, { signal: ending.signal }));
  const ended = Promise.allSettled(publishes);
  await until(() => web.requests.length === 1);
  const calledMs = performance.now();
  ending.abort(new Error('enough'));
  // This took 68 s for 400,000 publishes, when each ended publish searched all others for those to admit.
  const [calls, abort] = [calledMs - beganMs, performance.now() - calledMs];
  assert.ok((await ended).every(({ status }) => status === 'rejected'));
  assert.ok(abort < calls, `the calls took ${calls.toFixed()} ms, their end ${abort.toFixed()} ms`);
});

test('close sends what is left, and takes nothing more', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  for (const each of urls(2000)) void bus.updated('orders', each);
  await bus[Symbol.asyncDispose]();
  assert.equal(web.requests.flatMap((each) => each.urls).length, 2000);
  await assert.rejects(bus.updated('orders', url(1)), ClosedError);
  await assert.rejects(bus.pulse(), ClosedError);
});

test('publishAll reads no further than it can send', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const release = web.hold();
  let read = 0;
  const events = function* () {
    for (; read < 20_000; read++) yield { type: 'update', url: url(read) } as const;
  };
  const published = bus.publishAll('orders', events());
  await until(() => web.requests.length === 1);
  const readAhead = read;
  assert.ok(readAhead < 5000, `${readAhead} events`);
  release();
  assert.equal(await published, 20_000);
});

test('publishAll says what it takes, if it gets something else from JavaScript', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const event = { type: 'noop', url: url(1) };
  for (const wrong of [event, undefined, 'events', Promise.resolve([event]), async function* () {}]) {
    for (const options of [{}, { signal: new AbortController().signal }])
      await assert.rejects(bus.publishAll('orders', wrong as unknown as [], options), {
        name: 'TypeError',
        message: 'the events must be an array, an iterable or an async iterable',
      });
  }
  assert.deepEqual(web.requests, []);
});

test('a signal ends publishAll also while the next event does not come', async () => {
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const never = new Promise(() => {});
  const orders = async function* () {
    yield { type: 'update', url: url(1) } as const;
    await never;
  };
  for (const refusal of [undefined, problem(403, 'topic_claimed')]) {
    const ending = new AbortController();
    if (refusal) web.answers(refusal);
    const published = bus.publishAll('orders', orders(), { signal: ending.signal });
    const enough = new Error('enough');
    await until(() => web.requests.length === 1);
    await bus.flush();
    web.requests.length = 0;
    ending.abort(enough);
    const error = await published.then(String, (reason: unknown) => reason);
    if (!refusal) assert.equal(error, enough);
    else assert.ok(error instanceof PublishAllError && error.readError === undefined);
  }
});

test('an error of publishAll that nobody catches is printed in a few lines, as its failures may be thousands', async () => {
  const web = await ScriptedWeb.start();
  web.answers(problem(403, 'topic_claimed'));
  const events = urls(500).map((each) => ({ type: 'update', url: each }) as const);
  const error = await web
    .client()
    .publishAll('orders', events)
    .then(String, (error: unknown) => error);
  assert.ok(error instanceof PublishAllError);
  assert.equal(error.failures.length, 500);
  assert.ok(inspect(error).split('\n').length < 40, inspect(error));
});

test('50,000 concurrent publishes take bounded memory', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const web = await ScriptedWeb.start();
  const bus = web.client();
  const release = web.hold();
  const data = { text: 'x'.repeat(2000) };
  const before = heap();
  const publishes = urls(50_000).map((each) => bus.updated('orders', each, { data }));
  const stored = Promise.all(publishes);
  await until(() => web.requests.length === 1);
  web.requests.length = 0;
  const mib = (heap() - before) / 1_048_576;
  const clear = setInterval(() => web.requests.splice(0), 10);
  release();
  await stored;
  clearInterval(clear);
  // The events as JSON would take 100 MiB. The buffer holds 16 of it, and each call with its event a good KiB.
  assert.ok(mib < 120, `${mib.toFixed()} MiB`);
  const left = (heap() - before) / 1_048_576;
  assert.ok(left < 40, `${left.toFixed()} MiB are left`);
});
