import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { buryAll } from '../../harness/scripts/dead_letters.ts';
import { longName } from '../../harness/scripts/names.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import { until } from '../../harness/until.ts';
import { joinToken } from '../../src/ids.ts';
import { packField } from '../../src/metrics/counter_hash.ts';
import { keyspace } from '../../src/store/keys.ts';

const HOUR_MS = 3_600_000;
const keys = keyspace('');
const api = new Api();
const bus = new Bus(() => api.store);

/** Gives `alice` and `bob` the same: a topic, a batch, a dead letter, delayed events and a trigger. */
beforeEach(async () => {
  await api.reset();
  for (const [token, topic] of [
    ['alice', 'apples'],
    ['bob', 'berries'],
  ] as const) {
    await api.call('POST', '/api_tokens', { as: 'root', body: JSON.stringify({ name: token, token }) });
    await bus.subscribe(token, { topics: [topic], max: 1 });
    await bus.publish(topic[0] ?? '', topic, ['event']);
    await bus.delay(`d${token}`, topic, [{ id: 'later', delay: HOUR_MS }]);
    assert.equal(await putTrigger(api.store, 'daily', { client: token, topic: `of_${token}` }), 'created');
  }
  await buryAll(api.store);
  await api.store.redis.hset(keys.counters(), packField('events.published', { topic: 'apples' }), 1);
  for (const topic of ['apples', 'berries']) await bus.publish(`x${topic[0]}`, topic, ['event']);
});

/** Puts a text in the place of a key. */
async function damage(key: string): Promise<void> {
  assert.equal(await api.store.redis.del(key), 1, `${key} was there`);
  await api.store.redis.set(key, 'x');
}

const read = async (path: string) => {
  const { status, text } = await api.call('GET', path, { as: 'root' });
  assert.equal(status, 200, `${path} ${text}`);
  return text;
};

describe('a key of another type', () => {
  const letter = longName('a1');
  const entries: [path: string, pattern: string, key: string][] = [
    ['/topics', 'topic:{topic}', keys.topic('apples')],
    ['/topics?limit=9', 'topic:{topic}', keys.topic('apples')],
    ['/triggers', 'triggers:of:{token}', keys.triggers_of('alice')],
    ['/triggers', 'trigger:{token}:{name}', keys.trigger('alice', 'daily')],
    ['/dead_letters', 'dead_letter:{bid}', keys.dead_letter(letter)],
    ['/dead_letters', 'dead_letter:about:{bid}', keys.dead_letter_about(letter)],
    ['/dead_letters?reason=max_attempts', 'dead_letter:{bid}', keys.dead_letter(letter)],
    ['/dead_letters?reason=max_attempts', 'dead_letter:about:{bid}', keys.dead_letter_about(letter)],
    ['/deliveries?state=dead', 'dead_letter:about:{bid}', keys.dead_letter_about(letter)],
    ['/api_tokens', 'api_token:{token}', keys.api_token('alice')],
  ];
  for (const [path, pattern, key] of entries)
    test(`${pattern} hides its entry of ${path} alone, and the log names its pattern`, async () => {
      const all: object[] = JSON.parse(await read(path));
      await damage(key);
      const rest: object[] = JSON.parse(await read(path));
      const hidden = all.filter((entry) => /"(?!publisher)\w+":"(alice|apples)"/.test(JSON.stringify(entry)));
      assert.equal(hidden.length, 1);
      assert.deepEqual(
        rest,
        all.filter((entry) => !hidden.includes(entry)),
      );
      await api.web.prints(
        new RegExp(`"skipped":"${pattern}","msg":"another program has written keys of the bus`),
      );
    });

  test('dead_letter:{bid} hides the letter at its own path, and the log names its pattern', async () => {
    await damage(keys.dead_letter(letter));
    assert.equal((await api.call('GET', `/dead_letters/${letter}`, { as: 'root' })).status, 404);
    await api.web.prints(/"skipped":"dead_letter:{bid}","msg":"another program has written keys/);
  });

  test('delayed:due:{topic} hides no topic', async () => {
    await damage(keys.delayed_due('apples'));
    const topics: { name: string; delayed: number }[] = JSON.parse(await read('/topics'));
    assert.deepEqual(
      topics.map(({ name, delayed }) => `${name} ${delayed}`),
      ['apples 0', 'berries 1', 'of_alice 0', 'of_bob 0'],
    );
  });

  test('batch:{bid} hides the subscriber of its job alone', async () => {
    await bus.publish('c', 'apples', ['event']);
    const subscribers = async () => {
      const jobs: { arguments: string[]; subscriber: string | null }[] = JSON.parse(await read('/jobs'));
      return new Map(jobs.map((job) => [job.arguments[0], job.subscriber]));
    };
    const before = await subscribers();
    await damage(keys.batch(longName('c1')));
    assert.deepEqual(await subscribers(), before.set(longName('c1'), null));
    await api.web.prints(/"skipped":"batch:{bid}"/);
  });

  test('subscriber:{token} hides no batch and no job', async () => {
    for (const token of ['alice', 'bob']) await bus.pause(token);
    const listed = async (path: string) => JSON.parse(await read(path)).length;
    const all = [await listed('/deliveries'), await listed('/jobs')];
    await damage(keys.subscriber('alice'));
    assert.deepEqual([await listed('/deliveries'), await listed('/jobs')], all);
    assert.equal(await listed('/deliveries?state=paused'), 1, 'that of bob');
  });

  for (const [path, key] of [
    ['/deliveries?state=paused', keys.batches_queued('alice')],
    ['/deliveries?state=retrying', keys.batches_retrying('alice')],
    ['/deliveries?state=taken', keys.deliveries_taken('alice')],
    ['/deliveries?state=dead&subscriber=alice', keys.dead_letters_of('alice')],
    ['/deliveries?state=in_flight', keys.jobs_pending('main', 'w1')],
    ['/jobs?queue=main&state=waiting', keys.jobs_waiting('alice')],
    ['/jobs?queue=main&state=pending', keys.jobs_pending('main', 'w1')],
  ] as const)
    test(`${key} hides what it has of ${path} alone`, async () => {
      if (/paused|waiting/.test(path)) for (const token of ['alice', 'bob']) await bus.pause(token);
      const { grants } = await bus.acquire(['w1', 'w2']);
      const finished = grants.map(({ worker, job }) => ({ worker, job }));
      if (path.endsWith('taken')) await bus.acquire([], { finished });
      else if (!/pending|in_flight/.test(path))
        for (const { worker, job } of finished) await bus.nack(worker, job, { delayMs: HOUR_MS });
      const all: { subscriber: string }[] = JSON.parse(await read(path));
      assert.ok(all.some(({ subscriber }) => subscriber === 'alice'));
      await damage(key);
      assert.deepEqual(
        JSON.parse(await read(path)),
        all.filter(({ subscriber }) => subscriber !== 'alice'),
      );
    });

  test('deliveries:taken:{token} hides its own batches alone at their own paths', async () => {
    const { grants } = await bus.acquire(['w1', 'w2']);
    await bus.acquire([], { finished: grants.map(({ worker, job }) => ({ worker, job })) });
    const taken: { id: string; subscriber: string }[] = JSON.parse(await read('/deliveries?state=taken'));
    await damage(keys.deliveries_taken('alice'));
    const statuses = new Map<string, number>();
    for (const { id, subscriber } of taken)
      statuses.set(subscriber, (await api.call('GET', `/deliveries/${id}`, { as: 'root' })).status);
    assert.deepEqual([statuses.get('alice'), statuses.get('bob')], [404, 200]);
    await api.web.prints(/"skipped":"deliveries:taken:{token}"/);
  });

  test('attempts:{bid} hides no dead letter', async () => {
    await damage(keys.attempts(letter));
    assert.equal(JSON.parse(await read('/dead_letters')).length, 2);
  });

  const needed: [key: string, hidden: RegExp][] = [
    [keys.subscriber('alice'), /alice/],
    [keys.batches_queued('alice'), /alice/],
    [keys.dead_letters_of('alice'), /alice/],
    [keys.subscribers(), /^routemaster_subscriber_health/],
    [keys.gauge_events(), /^routemaster_subscriber_queue_(events|bytes)/],
    [keys.gauge_batches(), /^routemaster_subscriber_queue_batches/],
    [keys.dead_letters_events(), /^routemaster_subscriber_dead_letters_(events|bytes)/],
    [keys.delayed_due('apples'), /^routemaster_events_delayed.*apples/],
    [keys.delayed_topics(), /^routemaster_events_delayed/],
    [keys.triggers_due(), /^routemaster_triggers\{/],
    [keys.jobs_index('main'), /queue="main"/],
    [keys.jobs_instant('main'), /queue="main"/],
    [keys.counters(), /^routemaster_events_published/],
  ];
  const seriesIn = (text: string) =>
    text.split('\n').filter((line) => /^routemaster_(?!redis|.*_age_)/.test(line));
  for (const [key, hidden] of needed)
    test(`${key} hides what /metrics needs it for alone`, async () => {
      const all = seriesIn(await read('/metrics'));
      await damage(key);
      const rest = seriesIn(await read('/metrics'));
      assert.deepEqual(
        rest,
        all.filter((line) => !hidden.test(line)),
      );
    });
});

describe('a call that needs a key of another type', () => {
  const calls: [path: string, key: string, found: string][] = [
    ['/topics', keys.topics(), 'topics is a string instead of a set'],
    ['/subscriptions', keys.subscribers(), 'subscribers is a string instead of a set'],
    ['/deliveries', keys.batches_open(), 'batches:open is a string instead of a hash'],
    ['/deliveries', keys.deliveries_logs(), 'deliveries:logs is a string instead of a zset'],
    ['/joins', keys.joins(), 'joins is a string instead of a set'],
    ['/audit', keys.audit(), 'audit is a string instead of a stream'],
  ];
  for (const [path, key, found] of calls)
    test(`${path} says that ${found}`, async () => {
      await api.store.redis.del(key);
      await api.store.redis.set(key, 'x');
      const { status, text } = await api.call('GET', path, { as: 'root' });
      const detail = `another program has written keys of the bus: ${found} (WRONGTYPE). An operator must rename them`;
      assert.deepEqual([status, JSON.parse(text).detail], [500, detail]);
      await api.web.prints(new RegExp(`"type":"WrongType".*${found}.*"msg":"a request failed"`));
    });

  test('says where to find its name if it is a key of one client, topic or batch', async () => {
    await damage(keys.triggers_of('alice'));
    const { status, text } = await api.call('GET', '/triggers/daily?client=alice', { as: 'root' });
    const detail =
      'another program has written a key of the bus (WRONGTYPE); the log of the worker names it at the next sweep';
    assert.deepEqual([status, JSON.parse(text).detail], [500, detail]);
  });
});

test('a definition of a trigger that cannot be read hides this trigger alone', async () => {
  await api.store.redis.hset(keys.triggers_of('alice'), 'daily', 'no definition');
  const triggers: { client: string }[] = JSON.parse(await read('/triggers'));
  assert.deepEqual(
    triggers.map(({ client }) => client),
    ['bob'],
  );
});

test('a join that cannot be read is hidden from /joins alone', async () => {
  for (const client of ['alice', 'bob']) {
    const then = { topic: `joined_of_${client}` };
    const rules = { sources: [{ topic: 'apples' }], by: 'url', within: 60_000, then };
    const { status, text } = await api.call('PUT', `/joins/daily?client=${client}`, {
      as: 'root',
      body: JSON.stringify(rules),
    });
    assert.equal(status, 201, text);
  }
  await damage(keys.subscriber(joinToken('daily', 'alice')));
  const joins: { client: string }[] = JSON.parse(await read('/joins'));
  assert.deepEqual(
    joins.map(({ client }) => client),
    ['bob'],
  );
  await api.web.prints(/"skipped":"subscriber:{token}"/);
});

test('a client that cannot be read stays in /metrics without its name', async () => {
  await damage(keys.api_token('alice'));
  // Processes remember a client for a second.
  await until(async () => /subscriber="unknown\.\w+"/.test(await read('/metrics')));
});

test('a form of the console that fails because of such a key is logged', async () => {
  const headers = {
    'content-type': 'application/x-www-form-urlencoded',
    'sec-fetch-site': 'same-origin',
  };
  const login = new URLSearchParams({ user: 'root', password: ROOT_KEY }).toString();
  const entered = await api.call('POST', '/console/login', { headers, body: login });
  const [cookie = ''] = entered.headers['set-cookie']?.[0]?.split(';') ?? [];
  const from = '/console/subscribers/alice';
  const { text } = await api.call('GET', from, { headers: { cookie } });
  const [, token = ''] = /name="form_token" value="([^"]+)"/.exec(text) ?? [];
  await api.store.redis.del(keys.batches_index());
  await api.store.redis.set(keys.batches_index(), 'x');
  const body = new URLSearchParams({ form_token: token, from }).toString();
  const failed = await api.call('POST', `${from}/test`, { headers: { ...headers, cookie }, body });
  assert.equal(failed.status, 500);
  assert.match(failed.text, /batches:index is a string instead of a zset/);
  await api.web.prints(/"type":"WrongType".*"path":"\/console","msg":"a request failed"/);
});
