import assert from 'node:assert/strict';
import { request } from 'node:http';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type Answer, Api, problemIn } from '../../harness/http/api.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll, readDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { assertConsistent, snapshot } from '../../harness/scripts/invariants.ts';
import { longName } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';

const CALLBACK = 'https://sub.example.com/events';

const api = new Api({ env: { ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '0.1' } });
const bus = new Bus(() => api.store);

interface Letter {
  id: string;
  subscriber: string;
  died_at: number;
}

beforeEach(() => api.reset());
afterEach(() => assertConsistent(api.store));

async function ok(as: string, method: string, path: string, body?: unknown): Promise<Answer> {
  const options = body === undefined ? {} : { body: JSON.stringify(body) };
  const answer = await api.call(method, path, { as, ...options });
  assert.ok(answer.status < 300, `${method} ${path} ${answer.status} ${answer.text}`);
  return answer;
}
const read = async (as: string, path: string) => JSON.parse((await ok(as, 'GET', path)).text);
const idsOf = (letters: Letter[]) => letters.map(({ id }) => id);
const dead = async () => Object.values(await readDeadLetters(api.store));

/** Returns the contents of Redis without what is stored at any time: counters, and when each client called last. */
async function stored() {
  const all = Object.entries(await snapshot(api.store));
  return all.filter(([key]) => !/^(counters|api_token:)/.test(key));
}

/** Makes dead letters of `name` with one event each. Resolves with their ids, the newest first. */
async function deaths(name: string, count: number): Promise<string[]> {
  await ok(name, 'POST', '/subscription', { topics: [name], callback: CALLBACK, max: 1 });
  const events = Array.from({ length: count }, (_, i) => ({ type: 'noop', url: `https://a.example/${i}` }));
  await ok('pub', 'POST', `/topics/${name}`, events);
  await buryAll(api.store);
  return idsOf(await read(name, '/dead_letters'));
}

async function assertNotFound(as: string, method: string, path: string): Promise<void> {
  const before = await stored();
  assert.equal(
    problemIn(await api.call(method, path, { as })).code,
    'dead_letter_not_found',
    `${method} ${path}`,
  );
  assert.deepEqual(await stored(), before);
}

describe('a client', () => {
  test('lists its own dead letters, and nobody else’s; root lists all, or those of one', async () => {
    const [mine, others] = [await deaths('alpha', 2), await deaths('beta', 1)];
    assert.equal(mine.length, 2);
    assert.deepEqual(idsOf(await read('alpha', '/dead_letters')), mine);
    assert.deepEqual(await read('pub', '/dead_letters'), []);
    assert.deepEqual(idsOf(await read('root', '/dead_letters')), [...others, ...mine]);
    const [alpha, beta] = [await api.token('alpha'), await api.token('beta')];
    const letters: Letter[] = await read('root', `/dead_letters?subscriber=${alpha}`);
    assert.deepEqual(idsOf(letters), mine);
    assert.ok(letters.every(({ subscriber }) => subscriber === alpha));
    assert.deepEqual(idsOf(await read('root', `/dead_letters?subscriber=${beta}&limit=1`)), others);
    assert.deepEqual(await read('root', '/dead_letters?subscriber=nobody'), []);
  });

  test('reads one whole, as it would have been delivered', async () => {
    await ok('sub', 'POST', '/subscription', { topics: ['widgets'], callback: CALLBACK, max: 2 });
    const event = { id: 'e1', type: 'update', url: 'https://a.example/1', timestamp: 1_600_000_000_000 };
    await ok('pub', 'POST', '/topics/widgets', [event, { ...event, data: { 'a "b"': [1, null, 'é'] } }]);
    const failed = {
      at: 1_600_000_000_001,
      status: 503,
      duration_ms: 12,
      reason: 'HTTP 503',
      answer: '<busy>',
    };
    await buryAll(api.store, { atMs: failed.at, durationMs: 12, ...failed });
    const [summary] = await read('sub', '/dead_letters');
    const { created_at, died_at, ...rest } = summary;
    assert.deepEqual(rest, {
      id: rest.id,
      subscriber: await api.token('sub'),
      reason: 'max_attempts',
      attempts: 1,
      event_count: 2,
    });
    assert.ok(Number.isInteger(created_at) && created_at <= died_at);
    const { timestamp, ...shown } = { topic: 'widgets', ...event, t: event.timestamp };
    const whole = {
      ...summary,
      history: [failed],
      events: [shown, { ...shown, data: { 'a "b"': [1, null, 'é'] } }],
    };
    const answer = await ok('sub', 'GET', `/dead_letters/${summary.id}`);
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(JSON.parse(answer.text), whole);
    assert.deepEqual(await read('root', `/dead_letters/${summary.id}`), whole);
    assert.equal((await ok('sub', 'HEAD', `/dead_letters/${summary.id}`)).text, '');
  });

  test('retries one, and all of its own', async () => {
    const [newest = '', ...older] = await deaths('alpha', 4);
    await deaths('beta', 1);
    assert.equal((await ok('alpha', 'POST', `/dead_letters/${newest}/retry`)).status, 204);
    assert.deepEqual(idsOf(await read('alpha', '/dead_letters')), older);
    assert.deepEqual(
      (await bus.acquire(['w1'])).grants.map(({ batch }) => batch?.[2]),
      ['1'],
    );
    const all = await ok('alpha', 'POST', '/dead_letters/retry');
    assert.deepEqual([all.status, all.text], [200, '{"retried":3}']);
    assert.equal((await ok('alpha', 'POST', '/dead_letters/retry')).text, '{"retried":0}');
    assert.deepEqual(await read('alpha', '/dead_letters'), []);
    const [report] = await read('alpha', '/subscriptions');
    assert.deepEqual([report.events.queued, report.dead_letters], [4, { batches: 0, events: 0 }]);
    assert.equal((await dead()).length, 1);
  });

  test('purges one, and all of its own', async () => {
    const [newest = '', ...older] = await deaths('alpha', 3);
    await deaths('beta', 1);
    assert.equal((await ok('alpha', 'DELETE', `/dead_letters/${newest}`)).status, 204);
    assert.deepEqual(idsOf(await read('alpha', '/dead_letters')), older);
    const all = await ok('alpha', 'DELETE', '/dead_letters');
    assert.deepEqual([all.status, all.text], [200, '{"purged":2}']);
    assert.equal((await ok('alpha', 'DELETE', '/dead_letters')).text, '{"purged":0}');
    assert.deepEqual(
      (await dead()).map(({ token }) => token),
      [await api.token('beta')],
    );
  });

  test('retries and purges those of one of its joins', async () => {
    await ok('alpha', 'PUT', '/joins/order', {
      sources: [{ topic: 'parts' }],
      by: 'url',
      then: { topic: 'all' },
    });
    await ok('pub', 'POST', '/topics/parts', { type: 'noop', url: 'https://a.example/1' });
    await buryAll(api.store);
    assert.equal((await ok('alpha', 'POST', '/dead_letters/retry?join=order')).text, '{"retried":1}');
    assert.equal((await ok('alpha', 'POST', '/dead_letters/retry?join=order')).text, '{"retried":0}');
    await buryAll(api.store);
    assert.equal((await ok('alpha', 'DELETE', '/dead_letters?join=order')).text, '{"purged":1}');
    assert.equal((await ok('alpha', 'DELETE', '/dead_letters?join=order')).text, '{"purged":0}');
  });

  test('is told, as root is, that a join whose letters are to be changed does not exist', async () => {
    await deaths('alpha', 1);
    const alpha = await api.token('alpha');
    for (const [as, query] of [
      ['alpha', 'join=misspelt'],
      ['root', `join=misspelt&subscriber=${alpha}`],
    ] as const) {
      for (const [method, path] of [
        ['POST', '/dead_letters/retry'],
        ['DELETE', '/dead_letters'],
      ] as const) {
        const { code, detail } = problemIn(await api.call(method, `${path}?${query}`, { as }));
        assert.deepEqual([code, detail], ['join_not_found', 'there is no join misspelt'], `${as} ${method}`);
      }
      assert.deepEqual(await read(as, `/dead_letters?${query}`), [], 'a listing of nothing is no error');
    }
    assert.equal((await dead()).length, 1);
  });

  test('neither sees nor touches those of others', async () => {
    const [id = ''] = await deaths('alpha', 1);
    for (const as of ['pub', 'beta']) {
      await api.token(as);
      await assertNotFound(as, 'GET', `/dead_letters/${id}`);
      await assertNotFound(as, 'POST', `/dead_letters/${id}/retry`);
      await assertNotFound(as, 'DELETE', `/dead_letters/${id}`);
      assert.equal((await ok(as, 'POST', '/dead_letters/retry')).text, '{"retried":0}');
      assert.equal((await ok(as, 'DELETE', '/dead_letters')).text, '{"purged":0}');
    }
    assert.equal((await dead()).length, 1);
  });

  test('whose token is its credential has it shown to itself and to root alone', async () => {
    const token = 'legacy--0123456789abcdef0123456789abcdef';
    await ok('root', 'POST', '/api_tokens', { name: 'legacy', token });
    api.enter({ name: 'legacy', token });
    const [id = ''] = await deaths('legacy', 1);
    const paths = ['/dead_letters', `/dead_letters/${id}`, `/dead_letters?subscriber=${token}`];
    for (const path of paths) {
      const { text } = await api.call('GET', path, { as: 'pub' });
      assert.doesNotMatch(text, /0123456789abcdef/, path);
    }
    assert.equal((await read('legacy', '/dead_letters'))[0].subscriber, token);
    assert.equal((await read('root', `/dead_letters/${id}`)).subscriber, token);
    const { text } = await ok('pub', 'GET', '/metrics');
    assert.match(
      text,
      /^routemaster_subscriber_dead_letters_batches\{subscriber="legacy\.[0-9a-f]{16}"\} 1$/m,
    );
    assert.doesNotMatch(text, /0123456789abcdef/);
  });
});

describe('root', () => {
  test('retries and purges any one', async () => {
    const [first = '', second = ''] = await deaths('alpha', 2);
    assert.equal((await ok('root', 'POST', `/dead_letters/${first}/retry`)).status, 204);
    assert.equal((await ok('root', 'DELETE', `/dead_letters/${second}`)).status, 204);
    assert.deepEqual(await dead(), []);
  });

  test('retries and purges all of the subscriber that it names', async () => {
    await deaths('alpha', 2);
    await deaths('beta', 3);
    const [alpha, beta] = [await api.token('alpha'), await api.token('beta')];
    assert.equal((await ok('root', 'POST', `/dead_letters/retry?subscriber=${alpha}`)).text, '{"retried":2}');
    assert.equal((await ok('root', 'DELETE', `/dead_letters?subscriber=${beta}`)).text, '{"purged":3}');
    assert.deepEqual(await dead(), []);
  });

  test('cannot retry what has no subscriber any more, but purge it', async () => {
    const [id = ''] = await deaths('alpha', 1);
    // Leaves Redis as if the process that removed the subscriber had died before it purged the dead letters.
    await api.store.run('remove_subscriber', { token: await api.token('alpha'), series: [] });
    const all = await api.call('POST', `/dead_letters/retry?subscriber=${await api.token('alpha')}`, {
      as: 'root',
    });
    assert.deepEqual([all.status, problemIn(all).code], [404, 'subscriber_not_found']);
    const refused = await api.call('POST', `/dead_letters/${id}/retry`, { as: 'root' });
    assert.equal(problemIn(refused).code, 'subscriber_not_found');
    assert.equal((await ok('root', 'DELETE', `/dead_letters/${id}`)).status, 204);
  });
});

test('what was retried or purged is no letter any more', async () => {
  const [first = '', second = ''] = await deaths('alpha', 2);
  await ok('alpha', 'POST', `/dead_letters/${first}/retry`);
  await ok('alpha', 'DELETE', `/dead_letters/${second}`);
  for (const id of [first, second, longName('never1'), 'short', 'about:0123456789ab', '%00'.repeat(20)]) {
    await assertNotFound('alpha', 'GET', `/dead_letters/${id}`);
    await assertNotFound('alpha', 'POST', `/dead_letters/${id}/retry`);
    await assertNotFound('root', 'DELETE', `/dead_letters/${id}`);
  }
});

test('a subscriber that leaves takes its dead letters with it', async () => {
  await deaths('alpha', 2);
  await deaths('beta', 2);
  await deaths('gamma', 1);
  await ok('alpha', 'DELETE', '/subscriber');
  await ok('root', 'DELETE', `/api_tokens/${await api.token('beta')}`);
  assert.deepEqual(
    (await dead()).map(({ token }) => token),
    [await api.token('gamma')],
  );
});

test('letters that are retried count as added to the queue', async () => {
  await deaths('alpha', 3);
  const token = await api.token('alpha');
  const added = async () => {
    const { text } = await ok('root', 'GET', '/metrics');
    return Number(
      new RegExp(`^routemaster_events_added_total\\{subscriber="${token}"\\} (\\d+)`, 'm').exec(text)?.[1],
    );
  };
  await until(async () => (await added()) === 3);
  await ok('alpha', 'POST', '/dead_letters/retry');
  await until(async () => (await added()) === 6);
});

describe('while memory is short', () => {
  const full = new Api({ env: { ROUTEMASTER_REDIS_MAX_MEM: '100000' } });

  test('nothing is retried, and all can be read and purged', async () => {
    const sub = await full.token('sub');
    const other = new Bus(() => full.store);
    await other.subscribe(sub, { max: 1 });
    await other.publish('a', 'widgets', ['e1', 'e2']);
    await buryAll(full.store);
    // Web looks at the memory first when a publish comes.
    const event = '{"type":"noop","url":"https://a.example/1"}';
    const publish = () => full.call('POST', '/topics/gadgets', { as: 'pub', body: event });
    await until(async () => (await publish()).status === 503);
    const id = longName('a1');
    for (const path of ['/dead_letters/retry', `/dead_letters/${id}/retry`])
      assert.equal(problemIn(await full.call('POST', path, { as: 'sub' })).code, 'storage_full');
    assert.equal(Object.keys(await readDeadLetters(full.store)).length, 2);
    assert.equal((await full.call('GET', `/dead_letters/${id}`, { as: 'sub' })).status, 200);
    assert.equal((await full.call('DELETE', `/dead_letters/${id}`, { as: 'sub' })).status, 204);
    assert.equal((await full.call('DELETE', '/dead_letters', { as: 'sub' })).text, '{"purged":1}');
    await assertConsistent(full.store);
  });
});

describe('pages', () => {
  const follow = async (as: string, first: string) => (await api.pages<Letter>(as, first)).map(idsOf);

  test('are followed by their links, which keep what was asked for', async () => {
    const mine = await deaths('alpha', 5);
    await deaths('beta', 2);
    const alpha = await api.token('alpha');
    const sizes = (pages: string[][]) => pages.map(({ length }) => length);
    for (const [as, path] of [
      ['alpha', '/dead_letters?limit=2'],
      ['root', `/dead_letters?subscriber=${alpha}&limit=2`],
    ] as const) {
      const pages = await follow(as, path);
      assert.deepEqual(sizes(pages), [2, 2, 1]);
      assert.deepEqual(pages.flat(), mine);
    }
    assert.deepEqual(sizes(await follow('root', '/dead_letters?limit=7')), [7]);
    assert.deepEqual(sizes(await follow('root', '/dead_letters?limit=6')), [6, 1]);
  });

  test('have 100 letters unless asked for others, and 1,000 at most', async () => {
    await deaths('alpha', 101);
    assert.deepEqual(
      (await follow('alpha', '/dead_letters')).map(({ length }) => length),
      [100, 1],
    );
    assert.equal((await read('alpha', '/dead_letters?limit=1000')).length, 101);
  });
});

describe('a large letter', () => {
  const COUNT = 240;
  const data = 'x'.repeat(60_000);

  async function largeDeath(): Promise<string> {
    const limits = { max: COUNT, max_bytes: 16 * 1024 * 1024 };
    await ok('sub', 'POST', '/subscription', { topics: ['widgets'], callback: CALLBACK, ...limits });
    const events = Array(COUNT / 8).fill({ type: 'noop', url: 'https://a.example/1', data });
    for (let i = 0; i < 8; i++) await ok('pub', 'POST', '/topics/widgets', events);
    await buryAll(api.store);
    return (await read('sub', '/dead_letters'))[0].id;
  }

  test('arrives whole', async () => {
    const { events } = await read('sub', `/dead_letters/${await largeDeath()}`);
    assert.equal(events.length, COUNT);
    assert.ok(events.every((event: { data: string }) => event.data === data));
  });

  test('may be left in the middle, and is no fault then', async () => {
    const id = await largeDeath();
    const headers = { authorization: await api.authorization('sub') };
    await new Promise<void>((resolve) => {
      const call = request({ host: '127.0.0.1', port: api.port, path: `/dead_letters/${id}`, headers });
      call.once('response', (response) => response.once('data', () => response.destroy()));
      call.once('close', resolve).end();
    });
    assert.equal((await read('sub', `/dead_letters/${id}`)).events.length, COUNT);
    assert.doesNotMatch(api.web.output, /a request failed/);
  });
});
