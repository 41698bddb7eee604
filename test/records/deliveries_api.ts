import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problemIn } from '../../harness/http/api.ts';
import { longName, shortName } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import {
  api,
  attempt,
  bus,
  event,
  HOUR_MS,
  namesIn,
  one,
  read,
  statesIn,
  subscriber,
} from './deliveries_scene.ts';

const OLD_TOKEN = 'old--0123456789abcdef0123456789abcdef';

describe('a batch', () => {
  test('is open, ready, in flight, retried, in flight again, and taken', async () => {
    const token = await subscriber('sub', { max: 2, timeout: HOUR_MS });
    await bus.publish('a', 'widgets', [event('e1')]);
    const common = { id: longName('a1'), subscriber: token, opened_at: await bus.createdMs('a1') };
    const untried = { first_attempt_at: null, last_attempt_at: null, ended_at: null, reason: null };
    const nothing = { bytes: null, topics: null, attempt_count: 0, attempts: [] };
    const opened = { ...common, closed_at: null, state: 'open', ...untried, event_count: 1, ...nothing };
    assert.deepEqual(await read('sub', '/deliveries'), [opened]);
    await until(async () => (await bus.nowMs()) > common.opened_at);
    await bus.publish('b', 'widgets', [event('e2')]);
    const [ready] = await read('sub', '/deliveries');
    assert.ok(ready?.closed_at && ready.closed_at > common.opened_at, 'it is closed when it is full');
    const open = { ...opened, closed_at: ready.closed_at };
    assert.deepEqual(ready, { ...open, state: 'ready', event_count: 2 });
    await bus.acquire(['w1']);
    const [flying] = await read('sub', '/deliveries');
    assert.equal(flying?.state, 'in_flight');
    assert.equal(flying.attempt_count, 1);
    assert.ok(flying.first_attempt_at && flying.first_attempt_at >= common.opened_at);
    assert.equal(flying.last_attempt_at, flying.first_attempt_at);
    const failed = attempt(1_700_000_000_001);
    await bus.nack('w1', 'a1', { attempt: JSON.stringify(failed) });
    const tried = { first_attempt_at: failed.at, last_attempt_at: failed.at };
    const retried = { attempt_count: 1, attempts: [failed] };
    const retrying = { ...open, ...tried, state: 'retrying', event_count: 2, ...retried };
    assert.deepEqual(await read('sub', '/deliveries'), [retrying]);
    await bus.acquire(['w1']);
    assert.equal((await one('sub', 'a1')).attempt_count, 2);
    const record = `${common.opened_at},2,2,{"widgets":2},200,1700000000009,204,5`;
    const beforeMs = await bus.nowMs();
    await bus.ack('w1', 'a1', { record });
    const [taken] = await read('sub', '/deliveries');
    assert.ok(taken?.ended_at && taken.ended_at >= beforeMs);
    const last = { at: 1_700_000_000_009, status: 204, duration_ms: 5, reason: null, answer: null };
    const end = { ended_at: taken.ended_at, last_attempt_at: last.at, bytes: 200, topics: { widgets: 2 } };
    const made = { ...end, attempt_count: 2, attempts: [failed, last] };
    assert.deepEqual(taken, { ...retrying, state: 'taken', ...made });
    assert.deepEqual(await one('sub', 'a1'), taken);
  });

  test('is closed at its first attempt unless it was full before, and remembers that as a dead letter', async () => {
    await subscriber('sub', { max: 2, timeout: 0 });
    await bus.publish(
      'a',
      'widgets',
      ['e1', 'e2', 'e3'].map((id) => event(id)),
    );
    const [late, full] = await read('sub', '/deliveries');
    assert.deepEqual([late?.closed_at, full?.closed_at], [null, full?.opened_at]);
    await until(async () => (await bus.nowMs()) > (late?.opened_at ?? 0));
    await bus.acquire(['w1', 'w2']);
    const { closed_at, first_attempt_at } = await one('sub', 'a2');
    // The number of a lease is the time in microseconds, or one more than the last number: here perhaps in the next ms.
    const laterMs = (first_attempt_at ?? 0) - (closed_at ?? 0);
    assert.ok(laterMs === 0 || laterMs === 1, `${closed_at} and ${first_attempt_at}`);
    assert.equal((await one('sub', 'a1')).closed_at, full?.opened_at);
    await bus.bury('w2', 'a2', { attempt: JSON.stringify(attempt(1_700_000_000_001)) });
    assert.equal((await one('sub', 'a2')).closed_at, closed_at);
    await api.call('DELETE', `/dead_letters/${longName('a2')}`, { as: 'sub' });
    assert.deepEqual(
      (await read('sub', '/deliveries?state=dropped')).map((each) => each.closed_at),
      [closed_at],
    );
    await bus.ack('w1', 'a1');
  });

  test('is dead, then ready again by its own id, and dropped when it is purged', async () => {
    await subscriber('sub');
    await bus.publish('a', 'widgets', [event('e1')]);
    await bus.acquire(['w1']);
    const failed = attempt(1_700_000_000_001);
    await bus.bury('w1', 'a1', { attempt: JSON.stringify(failed), reason: 'max_age' });
    const [dead] = await read('sub', '/deliveries');
    assert.deepEqual([dead?.state, dead?.reason, dead?.attempts], ['dead', 'max_age', [failed]]);
    const path = `/dead_letters/${longName('a1')}`;
    assert.equal((await api.call('POST', `${path}/retry`, { as: 'sub' })).status, 204);
    assert.deepEqual(statesIn(await read('sub', '/deliveries')), { a1: 'ready' });
    await bus.acquire(['w1']);
    await bus.bury('w1', 'a1', { attempt: JSON.stringify(attempt(1_700_000_000_002)) });
    assert.equal((await api.call('DELETE', path, { as: 'sub' })).status, 204);
    const [dropped] = await read('sub', '/deliveries');
    assert.deepEqual([dropped?.state, dropped?.reason], ['dropped', 'purged']);
    assert.deepEqual([dropped?.event_count, dropped?.attempt_count, dropped?.bytes], [1, 1, null]);
    assert.equal(dropped?.first_attempt_at, 1_700_000_000_001);
    assert.equal(dropped?.last_attempt_at, 1_700_000_000_002);
    assert.equal(dropped?.attempts.length, 2);
  });

  test('is tried at once if it waits, for its subscriber and root', async () => {
    await subscriber('sub');
    await subscriber('other', { topics: ['gadgets'] });
    await bus.publish('a', 'widgets', [event('e1')]);
    const retry = async (as: string, name = 'a1') => {
      const answer = await api.call('POST', `/deliveries/${longName(name)}/retry`, { as });
      return answer.status === 204 ? 204 : problemIn(answer).code;
    };
    for (const as of ['sub', 'root']) {
      await bus.acquire(['w1']);
      assert.equal(await retry(as), 'delivery_not_waiting');
      await bus.nack('w1', 'a1', { delayMs: HOUR_MS, throttleMs: HOUR_MS, attempt: '{}' });
      assert.equal(await retry('other'), 'delivery_not_found');
      assert.equal(await retry('viewer'), 'forbidden');
      assert.equal(await retry(as), 204);
    }
    assert.deepEqual(
      (await bus.acquire(['w1'])).grants.map(({ job }) => job),
      ['a1'],
    );
    assert.equal(await retry('root', 'b1'), 'delivery_not_found');
    await bus.ack('w1', 'a1');
  });

  test('is given up if it waits, by its subscriber and root', async () => {
    await subscriber('sub', { ordered: 1 });
    await subscriber('other', { topics: ['gadgets'] });
    await bus.publish('a', 'widgets', [event('e1'), event('e2')]);
    const bury = async (as: string, name: string) => {
      const answer = await api.call('POST', `/deliveries/${longName(name)}/bury`, { as });
      return answer.status === 204 ? 204 : problemIn(answer).code;
    };
    for (const [as, name] of [
      ['sub', 'a1'],
      ['root', 'a2'],
    ] as const) {
      await bus.acquire(['w1']);
      assert.equal(await bury(as, name), 'delivery_not_waiting');
      const attempted = JSON.stringify(attempt(1_700_000_000_001));
      await bus.nack('w1', name, { delayMs: HOUR_MS, throttleMs: 0, attempt: attempted });
      assert.equal(await bury('other', name), 'delivery_not_found');
      assert.equal(await bury('viewer', name), 'forbidden');
      assert.equal(await bury(as, name), 204);
      assert.equal(await bury(as, name), 'delivery_not_found');
    }
    const letters = await read('sub', '/deliveries?state=dead');
    assert.deepEqual(
      letters.map(({ reason }) => reason),
      ['buried', 'buried'],
    );
  });

  test('says for what it waits, and before which time it is not tried', async () => {
    const wait = async (name: string) => {
      const { waits_for, next_attempt_at } = await one('sub', name);
      return [waits_for, next_attempt_at];
    };
    const settings = { max: 2, timeout: HOUR_MS };
    const token = await subscriber('sub', settings);
    await bus.publish(
      'a',
      'widgets',
      ['e1', 'e2', 'e3'].map((id) => event(id)),
    );
    assert.deepEqual(await wait('a1'), ['worker', null]);
    assert.deepEqual(await wait('a2'), ['time', (await one('sub', 'a2')).opened_at + HOUR_MS]);
    await subscriber('sub', { ...settings, ordered: 1 });
    assert.deepEqual((await wait('a2'))[0], 'older_batch');
    await subscriber('sub', settings);
    await bus.acquire(['w1']);
    assert.deepEqual(await wait('a1'), [undefined, undefined], 'it is under way');
    const minMs = await bus.nowMs();
    await bus.nack('w1', 'a1', { delayMs: 1000, throttleMs: 5000, attempt: JSON.stringify(attempt(1)) });
    const [reason, dueMs] = await wait('a1');
    assert.equal(reason, 'time');
    assert.ok(Number(dueMs) >= minMs + 5000, 'its subscriber is held back for longer than the batch');
    await bus.pause(token);
    assert.deepEqual(await wait('a1'), ['resume', null]);
  });

  test('says that another one is tried first, or that its subscriber has no room', async () => {
    const waits = async () => [(await one('sub', 'a2')).waits_for, (await one('sub', 'a3')).waits_for];
    await subscriber('sub');
    await bus.publish(
      'a',
      'widgets',
      ['e1', 'e2', 'e3'].map((id) => event(id)),
    );
    await bus.acquire(['w1', 'w2'], { laneLimit: 1 });
    assert.deepEqual(await waits(), ['room', 'room']);
    await bus.nack('w1', 'a1', { delayMs: HOUR_MS, throttleMs: HOUR_MS });
    await bus.acquire(['w1', 'w2'], { laneLimit: 1 });
    assert.deepEqual(await waits(), ['time', 'other_batch']);
  });

  test('is dropped for want of memory, with its topics', async () => {
    await subscriber('sub', { max: 9, topics: ['widgets', 'gadgets'] });
    await bus.publish('a', 'widgets', [event('e1'), event('e2')]);
    await bus.publish('b', 'gadgets', [event('e3', 'gadgets')]);
    await bus.autodrop(1);
    const [dropped] = await read('sub', '/deliveries?state=dropped');
    assert.equal(dropped?.reason, 'memory');
    assert.equal(dropped.closed_at, dropped.ended_at, 'it was open until then');
    assert.deepEqual(dropped.topics, { widgets: 2, gadgets: 1 });
  });

  test('is paused while its callback is gone, and ready afterwards', async () => {
    await subscriber('sub');
    await bus.publish('a', 'widgets', [event('e1'), event('e2')]);
    const { grants } = await bus.acquire(['w1', 'w2']);
    assert.equal(grants.length, 2);
    await bus.nack('w1', 'a1', { pause: 1, attempt: JSON.stringify(attempt(1, { status: 410 })) });
    assert.deepEqual(statesIn(await read('sub', '/deliveries')), { a1: 'paused', a2: 'in_flight' });
    assert.deepEqual(namesIn(await read('root', '/deliveries?state=paused')), ['a1']);
    assert.deepEqual(namesIn(await read('sub', '/deliveries?state=ready')), []);
    await subscriber('sub');
    assert.deepEqual(namesIn(await read('sub', '/deliveries?state=ready')), ['a1']);
    assert.equal((await one('sub', 'a1')).attempts[0]?.status, 410);
  });
});

describe('a client', () => {
  test('sees its own batches, root and viewers all of them or those of one', async () => {
    const [alpha, beta] = [await subscriber('alpha'), await subscriber('beta', { topics: ['gadgets'] })];
    await bus.publish('a', 'widgets', [event('e1')]);
    await bus.publish('b', 'gadgets', [event('e2', 'gadgets')]);
    await bus.acquire(['w1']);
    await bus.ack('w1', 'a1');
    assert.deepEqual(statesIn(await read('alpha', '/deliveries')), { a1: 'taken' });
    assert.deepEqual(statesIn(await read('beta', '/deliveries')), { b1: 'ready' });
    for (const as of ['root', 'viewer']) {
      assert.deepEqual(statesIn(await read(as, '/deliveries')), { a1: 'taken', b1: 'ready' });
      assert.deepEqual(namesIn(await read(as, `/deliveries?subscriber=${alpha}`)), ['a1']);
      assert.deepEqual(namesIn(await read(as, `/deliveries?subscriber=${beta}&state=taken`)), []);
      assert.equal((await one(as, 'a1')).subscriber, alpha);
    }
    for (const name of ['a1', 'b1']) {
      const others = name === 'a1' ? 'beta' : 'alpha';
      const answer = await api.call('GET', `/deliveries/${longName(name)}`, { as: others });
      assert.equal(problemIn(answer).code, 'delivery_not_found');
    }
  });

  test('sees the batches of its joins, by their names', async () => {
    const alpha = await subscriber('alpha');
    await subscriber('beta', { topics: ['gadgets'] });
    const rules = { sources: [{ topic: 'parts' }], by: 'url', then: { topic: 'wholes' } };
    await api.call('PUT', '/joins/order', { as: 'alpha', body: JSON.stringify(rules) });
    await bus.publish('a', 'parts', [event('e1', 'parts')]);
    await bus.publish('b', 'widgets', [event('e2')]);
    const own = await read('alpha', '/deliveries');
    assert.deepEqual(
      own.map(({ id, subscriber, join }) => [shortName(id), subscriber, join]),
      [
        ['b1', alpha, undefined],
        ['a1', alpha, 'order'],
      ],
    );
    for (const [as, path] of [
      ['alpha', '/deliveries?join=order'],
      ['viewer', `/deliveries?join=order&subscriber=${alpha}`],
    ] as const)
      assert.deepEqual(namesIn(await read(as, path)), ['a1']);
    assert.equal((await one('alpha', 'a1')).join, 'order');
    assert.deepEqual(await read('beta', '/deliveries?join=order'), []);
    assert.equal((await api.call('GET', `/deliveries/${longName('a1')}`, { as: 'beta' })).status, 404);
  });

  test('that leaves takes its records with it', async () => {
    await subscriber('sub');
    await bus.publish('a', 'widgets', [event('e1'), event('e2')]);
    await bus.acquire(['w1']);
    await bus.ack('w1', 'a1');
    assert.equal((await api.call('DELETE', '/subscriber', { as: 'sub' })).status, 204);
    assert.deepEqual(await read('root', '/deliveries'), []);
    assert.equal((await api.call('GET', `/deliveries/${longName('a1')}`, { as: 'root' })).status, 404);
  });

  test('whose token is its credential is shown to viewers by its public name', async () => {
    const body = JSON.stringify({ name: 'old', token: OLD_TOKEN });
    await api.call('POST', '/api_tokens', { as: 'root', body });
    api.enter({ name: 'old', token: OLD_TOKEN });
    await bus.subscribe(OLD_TOKEN, { max: 1 });
    await bus.publish('a', 'widgets', [event('e1'), event('e2')]);
    await bus.acquire(['w1']);
    await bus.ack('w1', 'a1');
    const seen = await read('viewer', '/deliveries');
    assert.equal(seen.length, 2);
    const name = seen[0]?.subscriber ?? '';
    assert.match(name, /^old\.[0-9a-f]{16}$/);
    assert.doesNotMatch(JSON.stringify(seen), /0123456789abcdef/);
    assert.equal((await one('viewer', 'a1')).subscriber, name);
    assert.equal((await one('viewer', 'a2')).subscriber, name);
    assert.deepEqual(await read('viewer', `/deliveries?subscriber=${name}`), seen);
    assert.deepEqual(await read('viewer', `/deliveries?subscriber=${OLD_TOKEN}`), []);
    assert.equal((await read('root', `/deliveries?subscriber=${OLD_TOKEN}`)).length, 2);
  });
});
