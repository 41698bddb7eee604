import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api, problemIn } from '../../harness/http/api.ts';
import { until } from '../../harness/until.ts';
import { packJob } from '../../src/store/job.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const CALLBACK = 'https://sub.example.com/hidden-path';
const OLD_TOKEN = 'old--0123456789abcdef0123456789abcdef';
const PUBLIC_NAME = /^old\.[0-9a-f]{16}$/;

interface Entry {
  id: string;
  at: number;
  action: string;
  role: string;
  client: string | null;
  target: string | null;
  address: string;
  status: number;
  code: string | null;
  subscriptions: number | null;
}

const read = async (api: Api, query = '', as = 'root'): Promise<Entry[]> =>
  JSON.parse((await api.call('GET', `/audit${query}`, { as })).text);

/** Waits for `count` entries. Resolves with all entries, the oldest first. */
async function recorded(api: Api, count: number): Promise<Entry[]> {
  await until(async () => (await api.store.redis.xlen('audit')) >= count, { what: `${count} entries` });
  return (await read(api)).reverse();
}

const brief = ({ action, role, client, target, status, code }: Entry) =>
  [action, role, client ?? '-', target ?? '-', status, code ?? ''].join(' ').trim();

const redisConfig = { appendonly: 'yes' };
const api = new Api({ env: { ROUTEMASTER_TRUSTED_PROXIES: '1' }, redisConfig });
beforeEach(() => api.reset());

describe('the audit', () => {
  /** Makes a client whose token is its credential. */
  async function makeOld(): Promise<void> {
    const body = JSON.stringify({ name: 'old', token: OLD_TOKEN });
    await api.call('POST', '/api_tokens', { as: 'root', body });
    api.enter({ name: 'old', token: OLD_TOKEN });
  }

  test('names the job of a bulk operation without the token of its client', async () => {
    await makeOld();
    const { redis, keys } = api.store;
    const job = packJob('bulk', [OLD_TOKEN, 'A96w5uKHOM8kSsHw----', 'run']);
    await redis.sadd(keys.jobs_index('aux'), job);
    await redis.zadd(keys.jobs_scheduled('aux'), Date.now() + 60_000, job);
    const id = `aux-${job.toString('base64url')}`;
    assert.equal((await api.call('POST', `/jobs/${id}/run`, { as: 'root' })).status, 204);
    const target = (await recorded(api, 2)).at(-1)?.target ?? '';
    assert.match(target, /^aux-/);
    assert.match(String(Buffer.from(target, 'base64url')), /bulk.*A96w5uKHOM8kSsHw----.*run/);
    assert.doesNotMatch(String(Buffer.from(target, 'base64url')), /0123456789abcdef/);
  });

  test('names any other job as the caller does, however its bytes are packed', async () => {
    const levels = Buffer.alloc(150, 0x91);
    for (const [index, packed] of [
      Buffer.from([0x92, 0xd9, 1, 0x78, 0x90]),
      Buffer.concat([Buffer.from([0x92, 0xa1, 0x78]), levels, Buffer.from([0x90])]),
    ].entries()) {
      const id = `aux-${packed.toString('base64url')}`;
      assert.equal((await api.call('POST', `/jobs/${id}/run`, { as: 'root' })).status, 404);
      const { target } = (await recorded(api, index + 1)).at(-1) ?? {};
      assert.ok(target && id.startsWith(target), target ?? '');
    }
  });

  test('has every call that changes something, but no publish and nothing that only looks', async () => {
    const [pub, sub] = [await api.token('pub'), await api.token('sub')];
    const subscription = JSON.stringify({ topics: ['widgets'], callback: CALLBACK });
    await api.call('POST', '/topics/widgets', { as: 'pub', body: EVENT });
    await api.call('GET', '/topics', { as: 'pub' });
    for (const [method, path, as, body] of [
      ['POST', '/subscription', 'sub', subscription],
      ['POST', '/dead_letters/retry', 'sub'],
      ['DELETE', `/dead_letters?subscriber=${sub}`, 'root'],
      ['DELETE', '/subscriber/topics/widgets', 'sub'],
      ['PUT', '/topics/widgets/publisher', 'root', JSON.stringify({ client: pub })],
      ['DELETE', '/topics/widgets', 'pub'],
      ['DELETE', `/subscribers/${sub}`, 'root'],
      ['POST', `/api_tokens/${pub}/secret`, 'root', '{"grace":0}'],
      ['DELETE', `/api_tokens/${pub}`, 'root'],
    ] as const) {
      const { status, text } = await api.call(method, path, { as, ...(body && { body }) });
      assert.ok(status < 300, `${method} ${path}: ${status} ${text}`);
    }
    assert.deepEqual((await recorded(api, 11)).map(brief), [
      `client.create root - ${pub} 201`,
      `client.create root - ${sub} 201`,
      `subscription.put client ${sub} - 204`,
      `dead_letters.retry client ${sub} - 200`,
      `dead_letters.purge root - ${sub} 200`,
      `subscription.delete client ${sub} widgets 204`,
      `topic.give root - widgets of ${pub} 204`,
      `topic.delete client ${pub} widgets 204`,
      `subscriber.delete root - ${sub} 204`,
      `client.rotate_secret root - ${pub} 200`,
      // The client is shown by the public name that it had before it was removed.
      `client.delete root - ${pub} 204`,
    ]);
  });

  test('says how many subscriptions ended with a topic', async () => {
    await api.call('POST', '/topics/widgets', { as: 'pub', body: EVENT });
    const body = JSON.stringify({ topics: ['widgets'], callback: CALLBACK });
    for (const as of ['sub', 'another', 'pub']) await api.call('POST', '/subscription', { as, body });
    const join = { sources: [{ topic: 'widgets' }], by: 'url', then: { topic: 'joined' } };
    await api.call('PUT', '/joins/ready', { as: 'another', body: JSON.stringify(join) });
    assert.equal((await api.call('DELETE', '/topics/widgets', { as: 'pub' })).status, 204);
    await api.call('DELETE', '/topics/nothing', { as: 'pub' });
    const entries = (await recorded(api, 9)).map((each) => [each.action, each.subscriptions]);
    assert.deepEqual(entries.slice(-3), [
      ['join.put', null],
      ['topic.delete', 3],
      ['topic.delete', null],
    ]);
  });

  test('has what was refused, with its code', async () => {
    const sub = await api.token('sub');
    for (const [method, path, as, body] of [
      ['DELETE', '/topics/none', 'root'],
      ['DELETE', '/topics/-bad-', 'root'],
      ['DELETE', '/api_tokens/none', 'sub'],
      ['DELETE', '/topics/none', 'viewer'],
      ['POST', '/subscription', 'sub', '{"topics":["a"],"callback":"http://127.0.0.1/"}'],
      ['POST', '/dead_letters/AAAAAAAAAAAAAAAAAAAA/retry', 'sub'],
    ] as const)
      problemIn(await api.call(method, path, { as, ...(body && { body }) }));
    assert.deepEqual((await recorded(api, 7)).slice(1).map(brief), [
      'topic.delete root - none 404 topic_not_found',
      // A name that breaks the rules is left out: it might be a secret in the wrong place.
      'topic.delete root - - 400 bad_topic',
      `client.delete client ${sub} - 403 forbidden`,
      'topic.delete viewer - - 403 forbidden',
      `subscription.put client ${sub} - 400 bad_callback`,
      `dead_letter.retry client ${sub} AAAAAAAAAAAAAAAAAAAA 404 dead_letter_not_found`,
    ]);
  });

  test('has nothing of those who have no credentials, or wrong ones', async () => {
    const wrong = { authorization: 'Basic bm9ib2R5Og==' };
    for (const headers of [{}, wrong])
      assert.equal((await api.call('DELETE', '/topics/widgets', { headers })).status, 401);
    await api.call('DELETE', '/nothing', { as: 'root' });
    await api.call('POST', '/pulse', { as: 'root' });
    await api.call('DELETE', '/topics/last', { as: 'root' });
    assert.deepEqual((await recorded(api, 1)).map(brief), ['topic.delete root - last 404 topic_not_found']);
  });

  test('says when by the clock of Redis, and from where as the proxies in front say', async () => {
    const before = Date.now();
    const headers = { 'x-forwarded-for': '203.0.113.9, 198.51.100.7' };
    await api.call('DELETE', '/topics/widgets', { as: 'root', headers });
    await api.call('DELETE', '/topics/widgets', { as: 'root' });
    const [first, second] = await recorded(api, 2);
    assert.deepEqual([first?.address, second?.address], ['198.51.100.7', '127.0.0.1']);
    assert.ok(first && first.at >= before - 1 && first.at <= Date.now() + 1);
    assert.equal(first.at, Number.parseInt(first.id, 10));
  });

  test('has no secret, neither in Redis nor in the log: a token that is a credential has its public name', async () => {
    await makeOld();
    const { secret } = JSON.parse(
      (await api.call('POST', '/api_tokens', { as: 'root', body: '{"name":"new"}' })).text,
    );
    const subscription = { topics: ['a'], callback: CALLBACK, uuid: 'hidden-uuid', signing_secret: true };
    const { text } = await api.call('POST', '/subscription', {
      as: 'old',
      body: JSON.stringify(subscription),
    });
    await api.call('DELETE', `/dead_letters?subscriber=${OLD_TOKEN}`, { as: 'root' });
    await api.call('DELETE', `/api_tokens/${OLD_TOKEN}`, { as: 'root' });
    const entries = await recorded(api, 5);
    assert.deepEqual(
      entries.map(({ action, client, target }) => [action, PUBLIC_NAME.test(String(client ?? target))]),
      [
        ['client.create', true],
        ['client.create', false],
        ['subscription.put', true],
        ['dead_letters.purge', true],
        ['client.delete', true],
      ],
    );
    const stored = JSON.stringify(await api.store.redis.xrange('audit', '-', '+'));
    await until(() => api.web.output.includes('"action":"client.delete"'));
    for (const hidden of [OLD_TOKEN, secret, 'hidden', JSON.parse(text).signing_secret])
      for (const seen of [stored, api.web.output, JSON.stringify(entries)])
        assert.ok(!seen.includes(hidden), `${hidden} in ${seen}`);
  });

  test('is a line of the log too', async () => {
    const pub = await api.token('pub');
    await api.call('DELETE', '/topics/logged', { as: 'pub' });
    await api.web.prints(/"target":"logged"/);
    const lines = api.web.output.split('\n').filter((line) => line.includes('"target":"logged"'));
    const { time, process, pid, level, ...line } = JSON.parse(lines[0] ?? '');
    assert.deepEqual(line, {
      ...{ action: 'topic.delete', role: 'client', client: pub, target: 'logged', address: '127.0.0.1' },
      ...{ status: 404, code: 'topic_not_found', msg: 'audit' },
    });
  });

  test('costs a changing call one command that writes, and others none', async () => {
    const { redis } = api.store;
    await api.token('pub');
    await recorded(api, 1);
    const calls = async () => /cmdstat_xadd:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1];
    await redis.config('RESETSTAT');
    await api.call('GET', '/topics', { as: 'pub' });
    await api.call('POST', '/topics/widgets', { as: 'pub', body: EVENT });
    await api.call('DELETE', '/topics/widgets', { as: 'pub' });
    await recorded(api, 2);
    assert.equal(await calls(), '1');
  });

  test('is for root and viewers', async () => {
    await api.call('DELETE', '/topics/widgets', { as: 'root' });
    const [entry] = await recorded(api, 1);
    assert.deepEqual(await read(api, '', 'viewer'), [entry]);
    assert.equal(problemIn(await api.call('GET', '/audit', { as: 'pub' })).code, 'forbidden');
    assert.equal(problemIn(await api.call('GET', '/audit')).code, 'unauthenticated');
  });
});

describe('the audit', () => {
  /** Stores this many entries of `topic.delete`, after one of `job.run`. */
  async function fill(count: number): Promise<void> {
    const entry = [
      'role',
      'root',
      'client',
      '',
      'target',
      't',
      'address',
      '::1',
      'status',
      '204',
      'code',
      '',
    ];
    const pipeline = api.store.redis.pipeline();
    for (let n = 0; n <= count; n++)
      pipeline.xadd('audit', `${1000 + n}-0`, 'action', n === 0 ? 'job.run' : 'topic.delete', ...entry);
    await pipeline.exec();
  }

  const follow = (first: string) => api.pages<Entry>('viewer', first);

  test('comes newest first, in pages that have each entry once', async () => {
    await fill(2500);
    const pages = await follow('/audit?limit=1000');
    assert.deepEqual(
      pages.map(({ length }) => length),
      [1000, 1000, 501],
    );
    assert.deepEqual(
      pages.flat().map(({ at }) => at),
      Array.from({ length: 2501 }, (_, n) => 3500 - n),
    );
    const sizes = async (path: string) => (await follow(path)).map(({ length }) => length);
    assert.deepEqual(await sizes('/audit?since=3401'), [100]);
    assert.deepEqual(await sizes('/audit?since=3400&limit=100'), [100, 1]);
    assert.deepEqual(await sizes('/audit?since=3501'), [0]);
  });

  test('is searched by action and client, 5,000 entries at most for a page', async () => {
    await fill(12_000);
    const pages = await follow('/audit?action=job.run');
    assert.deepEqual(
      pages.map((page) => page.map(({ at }) => at)),
      [[], [], [1000]],
    );
    const some = await follow('/audit?action=topic.delete&since=12900&limit=60');
    assert.deepEqual(
      some.map(({ length }) => length),
      [60, 41],
    );
    assert.deepEqual((await follow('/audit?client=nobody')).flat(), []);
    await api.token('pub');
    await api.call('DELETE', '/topics/none', { as: 'pub' });
    const [[entry] = []] = await follow(`/audit?client=${await api.token('pub')}&limit=1`);
    assert.equal(
      entry && brief(entry),
      `topic.delete client ${await api.token('pub')} none 404 topic_not_found`,
    );
  });

  test('is searched by what the calls were about, or by whose that was', async () => {
    const [pub, other] = [await api.token('pub'), await api.token('other')];
    for (const topic of ['widgets', 'gadgets']) {
      await api.call('POST', `/topics/${topic}`, { as: 'pub', body: EVENT });
      const give = { as: 'root', body: JSON.stringify({ client: topic === 'widgets' ? other : pub }) };
      assert.equal((await api.call('PUT', `/topics/${topic}/publisher`, give)).status, 204);
    }
    await api.call('DELETE', '/topics/widgets', { as: 'other' });
    await recorded(api, 5);
    const about = async (target: string) => (await read(api, `?target=${target}`, 'viewer')).map(brief);
    assert.deepEqual(await about('widgets'), [
      `topic.delete client ${other} widgets 204`,
      `topic.give root - widgets of ${other} 204`,
    ]);
    assert.deepEqual(await about(other), [
      `topic.give root - widgets of ${other} 204`,
      `client.create root - ${other} 201`,
    ]);
    assert.deepEqual(await about('widget'), []);
    assert.deepEqual((await read(api, `?target=${other}&action=topic.give`)).length, 1);
  });

  for (const [query, field] of [
    ['since=yesterday', 'since'],
    ['target=a&target=b', 'target'],
    ['target=', 'target'],
    ['since=1&since=2', 'since'],
    ['client=a&client=b', 'client'],
    ['action=topic.remove', 'action'],
    ['action=', 'action'],
    ['limit=0', 'limit'],
    ['before=1', 'before'],
    ['before=0-0', 'before'],
    ['until=1', 'until'],
  ] as const)
    test(`refuses ${query}`, async () => {
      const { code, field: named } = problemIn(await api.call('GET', `/audit?${query}`, { as: 'root' }));
      assert.deepEqual([code, named], ['bad_query', field]);
    });

  test('is written also when memory is exhausted', async () => {
    const { redis } = api.store;
    await redis.config('SET', 'maxmemory', '1mb');
    try {
      await assert.rejects(redis.set('more', 'x'), /OOM/);
      await api.call('DELETE', '/topics/when_full', { as: 'root' });
      assert.equal((await recorded(api, 1))[0]?.target, 'when_full');
    } finally {
      await redis.config('SET', 'maxmemory', '0');
    }
  });

  test('takes 150 bytes an entry', async () => {
    const sub = await api.token('sub');
    for (let n = 0; n < 500; n++)
      await api.call('DELETE', `/topics/topic_of_some_length_${n}`, { as: 'sub' });
    await recorded(api, 501);
    const bytes = await api.store.redis.memory('USAGE', 'audit', 'SAMPLES', 0);
    assert.ok(sub.length > 20 && Number(bytes) / 501 < 150, `${Number(bytes) / 501} bytes an entry`);
  });
});

describe('a call that changes something', () => {
  test('does not fail if the audit cannot be stored; the log has it, and says once what to grant', async () => {
    const { redis, keys } = api.store;
    await redis.set(keys.audit(), 'no stream');
    for (const name of ['one', 'two'])
      assert.equal((await api.call('DELETE', `/topics/${name}`, { as: 'root' })).status, 404);
    await api.web.prints(/"target":"two"/);
    await api.web.prints(/the audit cannot be stored .*grant the user of Redis \+xadd/);
    await redis.del(keys.audit());
    await api.call('DELETE', '/topics/three', { as: 'root' });
    // The entry of `two` may reach Redis only now, because a call does not wait for its entry.
    await until(async () => (await read(api))[0]?.target === 'three');
    assert.equal(api.web.output.split('the audit cannot be stored').length, 2);
  });

  test('is in the log also while Redis hangs or is away, and takes no longer for it', async () => {
    await api.token('pub');
    await api.redis.kill('SIGSTOP');
    const hanging = await api.call('DELETE', '/topics/hangs', { as: 'root' });
    assert.equal(problemIn(hanging).code, 'storage_unavailable');
    // The answer waits for one command of Redis, but not for another one of the audit.
    assert.ok(hanging.tookMs < 9500, `it took ${hanging.tookMs} ms`);
    await api.web.prints(/"target":"hangs","status":503,"code":"storage_unavailable"/);
    await api.redis.kill('SIGCONT');
    await api.redis.kill('SIGKILL');
    const away = await until(async () => {
      const answer = await api.call('DELETE', '/topics/away', { as: 'root' });
      return answer.tookMs < 1000 ? answer : undefined;
    });
    assert.equal(problemIn(away).code, 'storage_unavailable');
    await api.web.prints(/"target":"away","status":503/);
    await api.redis.restart();
    await until(async () => (await api.call('GET', '/pulse', { as: 'root' })).status === 204);
    // The connection of the tests may come back later than that of the web process.
    await until(() => api.store.redis.ping());
  });
});

describe('the audit', () => {
  const off = new Api({ env: { ROUTEMASTER_AUDIT_LOG: '0' } });
  test('is the log alone if it is turned off', async () => {
    await off.call('DELETE', '/topics/widgets', { as: 'root' });
    await off.web.prints(/"msg":"audit"/);
    assert.deepEqual(await read(off), []);
    assert.equal(await off.store.redis.exists('audit'), 0);
  });

  const limited = new Api({ env: { ROUTEMASTER_CALL_RATE: '1', ROUTEMASTER_AUDIT_LOG: '30' } });
  test('has no more of a client than its rate of calls, whatever is refused', async () => {
    await limited.token('eager');
    for (let n = 0; n < 40; n++) await limited.call('DELETE', '/api_tokens/none', { as: 'eager' });
    await limited.call('DELETE', '/topics/last', { as: 'root' });
    await until(async () => (await read(limited))[0]?.target === 'last');
    const codes = (await read(limited, '?limit=1000')).map(({ code }) => code);
    assert.ok(codes.length >= 12 && codes.length < 20, String(codes.length));
    assert.ok(!codes.includes('rate_limited'));
  });

  test('keeps the newest entries', async () => {
    for (let n = 1; n <= 32; n++) await limited.call('DELETE', `/topics/t${n}`, { as: 'root' });
    await until(async () => (await read(limited))[0]?.target === 't32');
    assert.deepEqual(
      (await read(limited)).map(({ target }) => target),
      Array.from({ length: 30 }, (_, n) => `t${32 - n}`),
    );
  });
});
