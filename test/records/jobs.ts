import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problemIn } from '../../harness/http/api.ts';
import { cpuSince } from '../../harness/measuring/cpu.ts';
import { longName } from '../../harness/scripts/names.ts';
import { until } from '../../harness/until.ts';
import { packJob } from '../../src/store/job.ts';
import { Listener } from '../lua/listener.ts';
import { api, bus } from './deliveries_scene.ts';

const CALLBACK = 'https://sub.example.com/events';
const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';

interface Job {
  id: string;
  queue: string;
  name: string;
  arguments: string[];
  state: string;
  subscriber: string | null;
  due: number | null;
  worker: string | null;
  since: number | null;
  attempts: number | null;
}

const page = (path: string, as = 'root') => api.page<Job>(as, path);
const follow = (first: string) => api.pages<Job>('root', first);
const all = async (query = '') => (await follow(`/jobs?limit=1000${query}`)).flat();
const sizes = (pages: Job[][]) => pages.map(({ length }) => length);
const bids = (jobs: Job[]) => jobs.map((job) => job.arguments[0]);

async function subscribe(name: string, settings: object): Promise<string> {
  const body = JSON.stringify({ topics: [name], callback: CALLBACK, ...settings });
  const { status, text } = await api.call('POST', '/subscription', { as: name, body });
  assert.equal(status, 204, text);
  return api.token(name);
}

const publish = (topic: string, count = 1) =>
  api.call('POST', `/topics/${topic}`, { as: 'pub', body: `[${Array(count).fill(EVENT)}]` });

describe('jobs', () => {
  test('are listed in each state, with what is known of them', async () => {
    const due = await subscribe('due', { timeout: 3_600_000 });
    const ready = await subscribe('ready', { timeout: 0, max: 1 });
    const before = Date.now();
    for (const topic of ['due', 'ready']) await publish(topic, topic === 'due' ? 1 : 3);
    const { redis, keys } = api.store;
    // Only the first batch goes to a worker: a subscriber that never accepted one has one delivery in flight.
    await bus.acquire(['w1', 'w2']);
    await redis.sadd(keys.jobs_index('aux'), packJob('sweep'));
    await redis.lpush(keys.jobs_instant('aux'), packJob('sweep'));
    const jobs = await all();
    assert.deepEqual(
      jobs.map(({ queue, name, state, subscriber, attempts, worker }) =>
        [queue, name, state, subscriber, attempts, worker].join(' ').trim(),
      ),
      [
        `main batch pending ${ready} 1 w1`,
        `main batch waiting ${ready} 0`,
        `main batch waiting ${ready} 0`,
        `main batch scheduled ${due} 0`,
        'aux sweep instant',
      ],
    );
    for (const { state, due, since } of jobs) {
      assert.equal(due !== null, state === 'scheduled');
      assert.equal(since !== null, state === 'pending' || state === 'waiting');
      if (due) assert.ok(due >= before + 3_600_000 && due <= Date.now() + 3_600_001, String(due));
      if (since) assert.ok(since >= before - 1 && since <= Date.now() + 1, String(since));
    }
    await redis.del(keys.jobs_index('aux'), keys.jobs_instant('aux'));
  });

  test('are filtered by queue and state', async () => {
    await subscribe('due', { timeout: 3_600_000 });
    await publish('due');
    assert.equal((await all('&queue=main')).length, 1);
    assert.equal((await all('&state=scheduled')).length, 1);
    assert.equal((await all('&queue=main&state=scheduled')).length, 1);
    for (const query of ['&queue=aux', '&state=pending', '&state=instant', '&state=waiting'])
      assert.deepEqual(await all(query), [], query);
  });

  test('of a client whose token is its credential name it by its public name, but to root', async () => {
    const token = 'old--0123456789abcdef0123456789abcdef';
    await api.call('POST', '/api_tokens', { as: 'root', body: JSON.stringify({ name: 'old', token }) });
    api.enter({ name: 'old', token });
    await subscribe('old', { timeout: 3_600_000 });
    await publish('old');
    assert.equal((await page('/jobs')).entries[0]?.subscriber, token);
    const { entries: jobs } = await page('/jobs', 'viewer');
    assert.match(String(jobs[0]?.subscriber), /^old\.[0-9a-f]{16}$/);
    assert.ok(!JSON.stringify(jobs).includes(token));
    assert.equal(problemIn(await api.call('GET', '/jobs', { as: 'old' })).code, 'forbidden');
  });

  test('are in pages that have each job once, also of one millisecond, and while others come and go', async () => {
    const { redis, keys } = api.store;
    const names = Array.from({ length: 50 }, (_, n) => longName(`j${n}`));
    const scheduled = keys.jobs_scheduled('main');
    const job = (name: string) => packJob('batch', [name]);
    for (const [n, name] of names.entries()) await redis.zadd(scheduled, n < 40 ? 1000 : 1000 + n, job(name));
    const scoreOf = (name: string) => (names.indexOf(name) < 40 ? 1000 : 1000 + names.indexOf(name));
    const expected = names.toSorted((a, b) => scoreOf(a) - scoreOf(b) || Buffer.compare(job(a), job(b)));
    try {
      const pages = await follow('/jobs?state=scheduled&queue=main&limit=7');
      assert.deepEqual(bids(pages.flat()), expected);
      assert.deepEqual(sizes(pages), [7, 7, 7, 7, 7, 7, 7, 1]);
      const first = await page('/jobs?state=scheduled&queue=main&limit=10');
      // The last job of the page is postponed, as are two before it and one after it, and a new job comes.
      for (const n of [2, 3, 9, 12]) await redis.zadd(scheduled, 5000, job(expected[n] ?? ''));
      await redis.zadd(scheduled, 999, job(longName('new')));
      const rest = await follow(first.next ?? '');
      const stayed = expected.slice(10).filter((name) => name !== expected[12]);
      const found = bids(rest.flat());
      assert.deepEqual(found.slice(0, stayed.length), stayed);
      assert.deepEqual(found.slice(stayed.length).sort(), [2, 3, 9, 12].map((n) => expected[n]).sort());
    } finally {
      await redis.del(scheduled);
    }
  });

  test('that wait in many lanes come lane by lane', async () => {
    const { redis, keys } = api.store;
    const waiting = new Map<string, string[]>();
    for (const lane of ['a', 'b', 'c', 'd']) {
      const token = await subscribe(lane, {});
      const names = Array.from({ length: lane === 'b' ? 0 : 3 }, (_, n) => longName(`${lane}${n}`));
      for (const [n, name] of names.entries())
        await redis.zadd(keys.jobs_waiting(token), 1_000_000 * (n + 1), packJob('batch', [name]));
      waiting.set(token, names);
    }
    const expected = [...waiting].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, names]) => names);
    try {
      for (const limit of [1, 2, 3, 4, 100]) {
        const found = (await follow(`/jobs?state=waiting&limit=${limit}`)).flat();
        assert.deepEqual(bids(found), expected, `limit ${limit}`);
        assert.deepEqual(found[0]?.since, 1000);
      }
    } finally {
      for (const token of waiting.keys()) await redis.del(keys.jobs_waiting(token));
    }
  });

  test('held by workers, and those that wait for a share, come in pages too', async () => {
    const { redis, keys } = api.store;
    const names = (what: string) => Array.from({ length: 5 }, (_, n) => longName(`${what}${n}`));
    const add = (key: string, what: string) =>
      redis.rpush(key, ...names(what).map((name) => packJob('batch', [name])));
    await add(keys.share_jobs('slow'), 's');
    await add(keys.share_jobs('failing'), 'f');
    await add(keys.jobs_instant('main'), 'i');
    for (const [n, name] of names('p').entries()) {
      await redis.sadd(keys.jobs_pending_index('main'), `w${n}`);
      await redis.rpush(keys.jobs_pending('main', `w${n}`), packJob('batch', [name]));
    }
    const expected = [
      ...[...names('p'), ...names('i')],
      ...[...names('s').reverse(), ...names('f').reverse()],
    ];
    try {
      for (const limit of [1, 2, 5, 7, 100])
        assert.deepEqual(bids((await follow(`/jobs?limit=${limit}`)).flat()), expected, `limit ${limit}`);
    } finally {
      for (const n of [0, 1, 2, 3, 4]) await redis.del(keys.jobs_pending('main', `w${n}`));
      await redis.del(keys.share_jobs('slow'), keys.share_jobs('failing'), keys.jobs_instant('main'));
      await redis.del(keys.jobs_pending_index('main'));
    }
  });

  test('of many workers and lanes come once each, though no page reads all of their names', async () => {
    const { redis, keys } = api.store;
    const names = Array.from({ length: 1500 }, (_, n) => longName(`n${n}`));
    const busy = names.filter((_, n) => n % 5 === 0);
    const fill = redis.pipeline().sadd(keys.jobs_pending_index('main'), ...names);
    fill.sadd(keys.subscribers(), ...names);
    for (const name of busy) {
      fill.rpush(keys.jobs_pending('main', name), packJob('batch', [name]));
      fill.zadd(keys.jobs_waiting(name), 1, packJob('batch', [name]));
    }
    await fill.exec();
    try {
      for (const state of ['pending', 'waiting']) {
        const pages = await follow(`/jobs?state=${state}&limit=70`);
        assert.ok(pages.every(({ length }) => length <= 70));
        assert.deepEqual(bids(pages.flat()).sort(), busy.toSorted(), state);
      }
    } finally {
      await redis.del(
        ...busy.flatMap((name) => [keys.jobs_pending('main', name), keys.jobs_waiting(name)]),
        ...[keys.jobs_pending_index('main'), keys.subscribers()],
      );
    }
  });

  for (const [query, field] of [
    ['queue=other', 'queue'],
    ['state=done', 'state'],
    ['cursor=abc', 'cursor'],
    [`cursor=${'a'.repeat(60)}`, 'cursor'],
    ['limit=0', 'limit'],
    ['after=1', 'after'],
  ] as const)
    test(`cannot be asked for by ${query.slice(0, 20)}`, async () => {
      const { code, field: named } = problemIn(await api.call('GET', `/jobs?${query}`, { as: 'root' }));
      assert.deepEqual([code, named], ['bad_query', field]);
    });

  test('are not found by the cursor of another listing', async () => {
    await subscribe('due', { timeout: 3_600_000, max: 1 });
    const { redis, keys } = api.store;
    await redis.zadd(keys.jobs_scheduled('main'), 1, packJob('batch', ['a']), 2, packJob('batch', ['b']));
    const { next = '' } = await page('/jobs?state=scheduled&limit=1');
    const answer = await api.call('GET', next.replace('scheduled', 'instant'), { as: 'root' });
    assert.equal(problemIn(answer).field, 'cursor');
    await redis.del(keys.jobs_scheduled('main'));
  });
});

describe('a million jobs', () => {
  test('are read in pages of bounded work, wherever a page begins', { timeout: 120_000 }, async () => {
    const { redis, keys } = api.store;
    const fill = `for i = 1, 100000 do local n = ARGV[1] * 100000 + i
      redis.call('ZADD', KEYS[1], 1000 + math.floor(n / 1000), ARGV[2] .. string.format('%020d', n))
      redis.call('LPUSH', KEYS[2], ARGV[2] .. string.format('%020d', n)) end`;
    const start = packJob('batch', ['0'.repeat(20)]).subarray(0, -20);
    for (let n = 0; n < 5; n++)
      await redis.eval(fill, 2, keys.jobs_scheduled('main'), keys.jobs_instant('main'), n, start);
    let path = '/jobs?limit=1000&queue=main';
    let longestMicros = 0;
    for (let pages = 0; pages < 20; pages++) {
      const used = cpuSince({ redis: api.redis.pid });
      const { entries: jobs, next = '' } = await page(path);
      assert.equal(jobs.length, 1000);
      longestMicros = Math.max(longestMicros, used().redis);
      path = pages === 9 ? '/jobs?limit=1000&queue=main&state=scheduled' : next;
    }
    // A scan of all jobs would take Redis many times as long.
    assert.ok(longestMicros < 100_000, `a page took Redis ${longestMicros} µs`);
    await redis.del(keys.jobs_scheduled('main'), keys.jobs_instant('main'));
  });
});

describe('POST /jobs/:id/run', () => {
  const run = (id: string, as = 'root') => api.call('POST', `/jobs/${id}/run`, { as });

  test('makes a scheduled job instant, and announces it', async (t) => {
    await subscribe('due', { timeout: 3_600_000 });
    await publish('due');
    const [job] = await all();
    assert.equal(job?.state, 'scheduled');
    const listener = await Listener.open(api.store);
    t.after(() => listener.close());
    const announced = await listener.during(api.store, async () =>
      assert.equal((await run(job?.id ?? '')).status, 204),
    );
    assert.deepEqual(announced, ['wake:main']);
    const [now] = await all();
    assert.deepEqual([now?.state, now?.id, now?.due], ['instant', job?.id, null]);
    assert.equal((await bus.acquire(['w1'])).grants.length, 1);
  });

  test('is refused for a job in another state, and for one that is not there; nothing changes', async () => {
    await subscribe('ready', { timeout: 0 });
    await publish('ready');
    const [job] = await all();
    const refused = problemIn(await run(job?.id ?? ''));
    assert.deepEqual([refused.status, refused.code], [409, 'job_not_scheduled']);
    await bus.acquire(['w1']);
    assert.equal(problemIn(await run(job?.id ?? '')).code, 'job_not_scheduled');
    for (const id of ['main-AAAA', 'aux-AAAA', 'other-AAAA', 'main', 'x'.repeat(2000), `${job?.id}A`])
      assert.deepEqual(
        [problemIn(await run(id)).status, problemIn(await run(id)).code],
        [404, 'job_not_found'],
      );
    assert.deepEqual(
      (await all()).map(({ state }) => state),
      ['pending'],
    );
  });

  test('is for root alone, and recorded', async () => {
    await subscribe('due', { timeout: 3_600_000 });
    await publish('due');
    const [job] = await all();
    for (const as of ['due', 'viewer'])
      assert.equal(problemIn(await run(job?.id ?? '', as)).code, 'forbidden');
    assert.equal((await run(job?.id ?? '')).status, 204);
    const audit = async () =>
      JSON.parse((await api.call('GET', '/audit?action=job.run', { as: 'root' })).text);
    await until(async () => (await audit()).length === 3);
    assert.deepEqual([(await audit())[0].target, (await audit())[0].status], [job?.id, 204]);
  });
});
