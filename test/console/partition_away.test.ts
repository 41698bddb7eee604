import assert from 'node:assert/strict';
import { stringify } from 'node:querystring';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { Api, problemIn, send } from '../../harness/http/api.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { nameIn } from '../../harness/scripts/crossing.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { Bulks, ROOT_OWNER } from '../../src/delivering/dead_letters/bulks.ts';
import { joinToken } from '../../src/ids.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';
import type { SubscriberReport } from '../../src/subscribing/subscriber_report.ts';

const AWAY = 1;
const LAST = 3;

const api = new Api({ env: { ROUTEMASTER_PARTITIONS: '4' } });
let partitions: Partitions;
/** A subscriber in the last partition, which has a dead letter there. */
let token: string;
let letter: string;
let cookie: string;

/** Takes a partition away: from now on Redis refuses all commands for its keys, until `comesBack`. */
async function goesAway(): Promise<void> {
  const others = partitions.all.filter(({ index }) => index !== AWAY).map(({ prefix }) => `~${prefix}*`);
  await api.store.redis.acl('SETUSER', 'default', 'resetkeys', '~partitions', ...others);
}

async function comesBack(): Promise<void> {
  await api.store.redis.acl('SETUSER', 'default', 'allkeys');
}

const last = () => partitions.all[LAST] as Partition;

const page = (path: string) => send(api.port, 'GET', path, { cookie, 'sec-fetch-site': 'same-origin' });

async function post(path: string, fields: Record<string, string | string[]>) {
  const { text } = await page('/console/clients');
  const [, form_token = ''] = /name="form_token" value="([^"]+)"/.exec(text) ?? [];
  const body = stringify({ form_token, ...fields });
  const type = { 'content-type': 'application/x-www-form-urlencoded' };
  const headers = { cookie, 'sec-fetch-site': 'same-origin', ...type };
  return send(api.port, 'POST', path, headers, body);
}

async function logIn(): Promise<string> {
  const body = String(new URLSearchParams({ user: 'root', password: ROOT_KEY }));
  const type = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
  const { headers } = await send(api.port, 'POST', '/console/login', type, body);
  return String(headers['set-cookie']).split(';')[0] ?? '';
}

describe('while a partition is away', () => {
  before(async () => {
    cookie = await logIn();
    partitions = Partitions.on(api.store.redis, { partitions: 4 });
    token = nameIn(partitions, LAST, 'subscriber');
  });
  beforeEach(async () => {
    const bus = new Bus(last);
    const topic = nameIn(partitions, LAST, 'topic');
    await bus.subscribe(token, { topics: [topic], max: 1 });
    await bus.publish('seed', topic, [
      '{"id":"1","topic":"widgets","type":"noop","url":"https://e.example/1","t":1}',
    ]);
    await buryAll(last());
    [letter = ''] = await last().redis.zrange(last().keys.dead_letters_index(), '0', '0');
  });
  afterEach(comesBack);
  after(comesBack);

  test('root sees, retries and purges what others have', async () => {
    await goesAway();
    for (const path of [`/dead_letters/${letter}`, `/deliveries/${letter}`])
      assert.equal((await api.call('GET', path, { as: 'root' })).status, 200, path);
    const list = await page(`/console/dead_letters?subscriber=${token}`);
    assert.equal(list.status, 200);
    assert.ok(list.text.includes(letter));
    const unknown = await api.call('GET', `/dead_letters/${'x'.repeat(20)}`, { as: 'root' });
    assert.equal(problemIn(unknown).code, 'storage_unavailable', 'it may be in the partition that is away');
    assert.equal((await api.call('DELETE', `/dead_letters/${letter}`, { as: 'root' })).status, 204);
  });

  test('root retries those of the selected dead letters that others have', async () => {
    const far = partitions.all[AWAY] as Partition;
    const stranger = nameIn(partitions, AWAY, 'subscriber');
    const bus = new Bus(() => far);
    await bus.subscribe(stranger, { topics: ['far'], max: 1 });
    await bus.publish('far', 'far', ['{"id":"1","topic":"far","type":"noop","url":"u","t":1}']);
    await buryAll(far);
    const [there = ''] = await far.redis.zrange(far.keys.dead_letters_index(), '0', '0');
    const left = () => last().redis.exists(last().keys.dead_letter(letter));
    await goesAway();
    const answer = await post('/console/dead_letters/selected', { id: [there, letter], do: 'retry' });
    assert.deepEqual([answer.status, await left()], [503, 0]);
    assert.match(
      answer.text,
      /Retried 1 dead letter<.*unknown whether this one was retried, because partition 1 refuses/s,
    );
    assert.ok(answer.text.includes(`/console/deliveries/${there}`) && !answer.text.includes(letter));
    const alone = await post('/console/dead_letters/selected', { id: there, do: 'retry' });
    assert.match(alone.text, /partition 1 refuses.*, so it is unknown whether anything was changed/);
    const [entry] = JSON.parse((await api.call('GET', '/audit?limit=1', { as: 'root' })).text);
    assert.deepEqual(
      [entry.action, entry.status, entry.code],
      ['dead_letters.selected', 503, 'storage_unavailable'],
    );
    await comesBack();
    assert.equal((await post('/console/dead_letters/selected', { id: there, do: 'purge' })).status, 303);
  });

  test('a client elsewhere sees itself in the list of subscribers', async () => {
    const { status } = await api.call('POST', '/api_tokens', {
      as: 'root',
      body: JSON.stringify({ name: 'shop', token }),
    });
    assert.equal(status, 201);
    api.enter({ name: 'shop', token });
    await goesAway();
    for (const query of ['', '?sort=queued', '?state=healthy', '?name=x']) {
      const { entries } = await api.page<SubscriberReport>('shop', `/subscribers${query}`);
      assert.deepEqual(
        entries.map(({ subscriber }) => subscriber),
        [token],
        query,
      );
    }
    assert.equal((await api.call('GET', '/subscribers?state=paused', { as: 'shop' })).text, '[]');
    await comesBack();
    await api.call('DELETE', `/api_tokens/${token}`, { as: 'root' });
  });

  test('a trigger elsewhere is shown and fired', async () => {
    const event = { type: 'noop', url: 'https://e.example/1' };
    const topic = nameIn(partitions, LAST, 'reports');
    const body = JSON.stringify({ topic, event, schedule: { every: 60_000 } });
    const put = await api.call('PUT', '/triggers/nightly', { as: 'pub', body });
    assert.equal(put.status, 201, put.text);
    await goesAway();
    assert.equal((await api.call('GET', '/triggers/nightly', { as: 'pub' })).status, 200);
    assert.equal((await api.call('POST', '/triggers/nightly/fire', { as: 'pub' })).status, 200);
    const unknown = await api.call('GET', '/triggers/unknown', { as: 'pub' });
    assert.equal(problemIn(unknown).code, 'storage_unavailable');
    await comesBack();
    await api.call('DELETE', `/api_tokens/${await api.token('pub')}`, { as: 'root' });
  });

  test('a purge that runs can be stopped in the others', async () => {
    const bulks = new Bulks(partitions);
    await bulks.begin(ROOT_OWNER, 'purge', { tokens: undefined });
    const { id = '' } = (await bulks.find(ROOT_OWNER)) ?? {};
    const step = { owner: ROOT_OWNER, id, listIndex: 0, token: undefined, max: 10 };
    for (const each of partitions.all) await each.run('count_bulk', step);
    assert.ok(await bulks.confirm(ROOT_OWNER, id));
    await goesAway();
    assert.equal((await post('/console/dead_letters/bulk/cancel', { id })).status, 503);
    await comesBack();
    const states = await partitions.ask((redis, keys) => redis.hget(keys.bulk(ROOT_OWNER), 'state'));
    assert.deepEqual(states, ['cancelled', 'running', 'cancelled', 'cancelled']);
    assert.equal((await post('/console/dead_letters/bulk/cancel', { id })).status, 303);
    assert.equal((await bulks.find(ROOT_OWNER))?.state, 'cancelled');
  });

  test('a client that is removed loses its subscriber elsewhere; later the removal can be repeated', async () => {
    await api.call('POST', '/api_tokens', { as: 'root', body: JSON.stringify({ name: 'shop', token }) });
    const remove = () => api.call('DELETE', `/api_tokens/${token}`, { as: 'root' });
    await goesAway();
    assert.equal(problemIn(await remove()).code, 'storage_unavailable');
    const there = await partitions.all[LAST]?.command((redis, keys) => redis.smembers(keys.subscribers()));
    assert.deepEqual(there, []);
    await comesBack();
    assert.equal((await remove()).status, 204);
    const known = await partitions.ask((redis, keys) => redis.hkeys(keys.api_tokens()));
    assert.deepEqual(known, [[], [], [], []]);
  });

  const joinsLeft = () => last().command((redis, keys) => redis.smembers(keys.joins_of(token)));

  /** Makes the client of the last partition that has joins there, each with one source. */
  async function clientWithJoins(sources: Record<string, string>): Promise<void> {
    await api.call('POST', '/api_tokens', { as: 'root', body: JSON.stringify({ name: 'shop', token }) });
    for (const [name, topic] of Object.entries(sources)) {
      const then = { topic: nameIn(partitions, LAST, `done_${name}`), type: 'update' };
      const body = JSON.stringify({ sources: [{ topic }], by: 'url', within: 60_000, then });
      const put = await api.call('PUT', `/joins/${name}?client=${token}`, { as: 'root', body });
      assert.equal(put.status, 201, put.text);
    }
  }

  test('a client that is removed loses its joins, but for those of a topic that is away', async () => {
    const near = nameIn(partitions, LAST, 'near');
    await clientWithJoins({ a: nameIn(partitions, AWAY, 'far'), b: near, c: near });
    await new Bus(last).subscribe(token, { topics: [nameIn(partitions, AWAY, 'topic')] });
    await goesAway();
    const remove = () => api.call('DELETE', `/api_tokens/${token}`, { as: 'root' });
    assert.deepEqual([(await remove()).status, await joinsLeft()], [503, ['a']]);
    await comesBack();
    assert.deepEqual([(await remove()).status, await joinsLeft()], [204, []]);
  });

  test('a client that is limited keeps no dead letters of the joins that end', async () => {
    const near = nameIn(partitions, LAST, 'near');
    await clientWithJoins({ b: near });
    await new Bus(last).publish('b', near, ['{"id":"1","topic":"near","type":"noop","url":"u","t":1}']);
    await buryAll(last());
    const letters = () => last().redis.zcard(last().keys.dead_letters_of(joinToken('b', token)));
    assert.equal(await letters(), 1);
    await goesAway();
    const body = JSON.stringify({ publish: ['nothing'] });
    const limit = () => api.call('PUT', `/api_tokens/${token}`, { as: 'root', body });
    assert.deepEqual([(await limit()).status, await joinsLeft(), await letters()], [503, [], 0]);
    await comesBack();
    assert.equal((await limit()).status, 200);
  });
});
