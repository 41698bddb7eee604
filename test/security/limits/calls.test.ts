import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Api, basic, problemIn } from '../../../harness/http/api.ts';
import { until } from '../../../harness/until.ts';
import { sharingNext } from '../../../src/sharing.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';

describe('a client that calls too often', () => {
  const api = new Api({ env: { ROUTEMASTER_CALL_RATE: '2', ROUTEMASTER_STRANGER_RATE: '3' } });

  test('is refused with the time to wait; its publishes, others and root are not', async () => {
    const beganMs = performance.now();
    const statuses: number[] = [];
    for (let n = 0; n < 30; n++)
      statuses.push((await api.call('GET', '/subscriptions', { as: 'eager' })).status);
    const accepted = statuses.filter((status) => status === 200).length;
    const allowedMeanwhile = (2 * (performance.now() - beganMs)) / 1000;
    assert.ok(accepted >= 20 && accepted <= 21 + allowedMeanwhile, `${accepted}`);
    for (const [method, path] of [
      ['GET', '/topics'],
      ['DELETE', '/topics/none'],
      ['GET', '/metrics'],
    ] as const) {
      // On a slow machine one call more may have become allowed.
      let refused = await api.call(method, path, { as: 'eager' });
      while (refused.status !== 429) refused = await api.call(method, path, { as: 'eager' });
      const { code, detail } = problemIn(refused);
      assert.deepEqual([code, refused.headers['retry-after']], ['rate_limited', '1']);
      assert.match(detail, /2 calls a second other than publishing.*try again in 1 s/);
    }
    assert.equal((await api.call('POST', '/topics/widgets', { as: 'eager', body: EVENT })).status, 204);
    assert.equal((await api.call('GET', '/topics', { as: 'other' })).status, 200);
    for (let n = 0; n < 30; n++) assert.equal((await api.call('GET', '/pulse', { as: 'root' })).status, 204);
  });

  test('is refused as a viewer too: all viewers together are as one client', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 30; n++) statuses.push((await api.call('GET', '/pulse', { as: 'viewer' })).status);
    assert.deepEqual([statuses[0], statuses.includes(429)], [204, true]);
  });

  test('pays for long answers', async () => {
    let answered = 0;
    while ((await api.call('GET', '/metrics', { as: 'prometheus' })).status === 200) answered++;
    assert.ok(answered > 0 && answered < 20, `${answered}`);
  });

  test('pays for the names that are looked through for a page', async () => {
    const { redis, keys } = api.store;
    await redis.sadd(keys.topics(), ...Array.from({ length: 4000 }, (_, n) => `topic_${n}`));
    let answered = 0;
    while ((await api.call('GET', '/topics?limit=1', { as: 'pager' })).status === 200) answered++;
    assert.ok(answered > 2 && answered < 8, `${answered}`);
  });

  test('without credentials is refused by its address, but for health checks; right credentials are let in', async () => {
    const ask = async (path: string) => (await api.call('GET', path)).status;
    const statuses = [];
    for (let n = 0; n < 40; n++) statuses.push(await ask(n % 2 ? '/topics' : '/nothing'));
    assert.ok(statuses.includes(429));
    assert.equal(await ask('/health'), 200);
    assert.equal((await api.call('GET', '/topics', { as: 'another' })).status, 200);
  });
});

describe('a client that calls much', () => {
  const api = new Api({ env: { ROUTEMASTER_CALL_RATE: '1000', ROUTEMASTER_SCALING_THRESHOLD: '0' } });

  test('has sixteen calls under way at most, such as those whose bodies do not come', async (t) => {
    const lines = [
      ...['POST /subscription HTTP/1.1', 'Host: bus', 'Content-Length: 9'],
      `Authorization: ${await api.authorization('hasty')}`,
    ];
    const sockets = Array.from({ length: 20 }, () => connect(api.port, '127.0.0.1'));
    t.after(() => sockets.map((socket) => socket.destroy()));
    const answers: string[] = [];
    for (const socket of sockets) {
      socket.on('data', (bytes) => answers.push(String(bytes)));
      socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    }
    await until(() => answers.length === 4);
    for (const answer of answers) assert.match(answer, /^HTTP\/1.1 429 .*may have 16 calls under way/s);
    for (const socket of sockets) socket.destroy();
    await until(async () => (await api.call('GET', '/topics', { as: 'hasty' })).status === 200);
    assert.equal(answers.length, 4);
  });

  test('is answered while another call of it is late on purpose', async () => {
    await api.token('autoscaler');
    let isUnderWay = true;
    const late = api.call('GET', '/pulse/scaling', { as: 'autoscaler' });
    void late.finally(() => {
      isUnderWay = false;
    });
    let meanwhile = 0;
    while (isUnderWay && meanwhile < 3) {
      await api.call('GET', '/pulse', { as: 'autoscaler' });
      if (isUnderWay) meanwhile++;
    }
    assert.deepEqual([meanwhile, (await late).status], [3, 204]);
  });

  test('gets a long list in pieces, whole and in order', async () => {
    const names = Array.from({ length: 801 }, (_, n) => `topic_${String(n).padStart(4, '0')}`);
    await api.token('pub');
    const publish = (name: string) => api.call('POST', `/topics/${name}`, { as: 'pub', body: EVENT });
    for (let from = 0; from < names.length; from += 100)
      await Promise.all(names.slice(from, from + 100).map(publish));
    for (const as of ['pub', 'root', 'other']) {
      const { headers, text } = await api.call('GET', '/topics', { as });
      assert.equal(headers['content-type'], 'application/json; charset=utf-8');
      const publisher = await api.token('pub');
      assert.deepEqual(
        JSON.parse(text),
        names.map((name) => ({ name, publisher, events: 1, delayed: 0, dropped: null })),
      );
    }
  });
});

describe('with a router in front', () => {
  const api = new Api({ env: { ROUTEMASTER_STRANGER_RATE: '3', ROUTEMASTER_TRUSTED_PROXIES: '1' } });

  describe('what is no call of the API', () => {
    for (const [index, [what, method, path, usual]] of (
      [
        ['a path that does not exist', 'GET', '/nothing', 404],
        ['the bare address', 'GET', '/', 404],
        ['a path that cannot be decoded', 'GET', '/topics/%zz', 400],
        ['a method that a path does not take', 'DELETE', '/topics', 405],
        ['a method that a health check does not take', 'DELETE', '/health', 405],
      ] as const
    ).entries()) {
      test(`is limited by its address, whatever credentials it has: ${what}`, async () => {
        const headers = { 'x-forwarded-for': `192.0.2.${index + 1}` };
        const statuses: number[] = [];
        for (let n = 0; n < 45; n++)
          statuses.push((await api.call(method, path, { as: 'lost', headers })).status);
        assert.deepEqual([...new Set(statuses)], [usual, 429]);
        assert.ok(statuses.indexOf(429) >= 30);
      });
    }
  });

  describe('a request whose credentials nobody checks', () => {
    for (const [index, [what, path, authorization, usual]] of (
      [
        ['with an empty Authorization', '/topics', '', 401],
        ['for a page of the console', '/console', basic('nobody', ''), 303],
        ['for the login of the console', '/console/login', 'nothing', 200],
        ['for a script of the console', '/console/assets/0/none', 'nothing', 404],
      ] as const
    ).entries()) {
      test(`is limited by its address: ${what}`, async () => {
        const headers = { 'x-forwarded-for': `198.51.100.${index + 1}`, authorization };
        const statuses: number[] = [];
        for (let n = 0; n < 45; n++) statuses.push((await api.call('GET', path, { headers })).status);
        assert.deepEqual([...new Set(statuses)], [usual, 429]);
        assert.ok(statuses.indexOf(429) >= 30);
      });
    }
  });

  describe('the documentation', () => {
    for (const [index, path] of ['/openapi.json', '/docs'].entries()) {
      test(`costs its address what it weighs, whatever credentials come with it: ${path}`, async () => {
        const headers = { 'x-forwarded-for': `203.0.113.${index + 1}` };
        const lengths: number[] = [];
        for (const as of [undefined, 'reader', 'root', undefined, 'reader', 'root', undefined, 'reader']) {
          const { status, text } = await api.call('GET', path, { ...(as && { as }), headers });
          if (status === 200) lengths.push(text.length);
          else assert.equal(status, 429);
        }
        // A bucket has 30 calls. The last call before it is empty may be of any length.
        const calls = lengths.reduce((sum, length) => sum + 1 + length / 16_384, 0);
        assert.ok(lengths.length > 0 && lengths.length < 6 && calls >= 30, `${lengths}`);
        assert.equal((await api.call('GET', '/topics', { as: 'reader', headers })).status, 200);
      });
    }
  });
});

describe('a shared reading', () => {
  test('is one at a time, and nobody gets what was read before it asked', async () => {
    const ends: ((value: number) => void)[] = [];
    const shared = sharingNext(() => new Promise<number>((resolve) => ends.push(resolve)));
    const first = shared();
    await nextTurn();
    const during = [shared(), shared(), shared()];
    await nextTurn();
    assert.equal(ends.length, 1);
    ends[0]?.(1);
    assert.equal(await first, 1);
    await nextTurn();
    const later = shared();
    ends[1]?.(2);
    assert.deepEqual(await Promise.all(during), [2, 2, 2]);
    await nextTurn();
    ends[2]?.(3);
    assert.equal(await later, 3);
    assert.equal(ends.length, 3);
  });

  test('that fails is begun anew', async () => {
    let readings = 0;
    const shared = sharingNext(async () => {
      if (++readings === 1) throw new Error('away');
      return readings;
    });
    await assert.rejects(shared(), /away/);
    assert.equal(await shared(), 2);
    assert.equal(await shared(), 3);
  });

  test('keeps no result when all who asked have it', async () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage: () => void = runInNewContext('gc');
    const shared = sharingNext(async () => ({ large: 'x' }));
    const result = new WeakRef(await shared());
    await until(() => {
      collectGarbage();
      return result.deref() === undefined;
    });
  });
});
