import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { root } from '../../harness/processes/command.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { subscriptionsOf } from '../../harness/subscriptions.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { createLog } from '../../src/log.ts';
import { packField } from '../../src/metrics/counter_hash.ts';
import { Counters } from '../../src/metrics/counters.ts';
import type { ExpositionParts } from '../../src/metrics/exposition.ts';
import { COUNTER_NAMES, FAMILIES } from '../../src/metrics/families.ts';
import { metricsApi } from '../../src/metrics/metrics_api.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import type { Answer, Call } from '../../src/routing/route.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { type ParsedFamily, parsePrometheus } from './prometheus_text.ts';

const redis = new TestStore({ maxmemory: '100mb' });
const log = createLog('silent', {});
const LIMITS = { redisMaxBytes: 0, redisMinFreeBytes: 10_000_000, leaseMs: 30_000 };

const counting = () => new Counters(new Partitions(redis.store), { flushIntervalMs: 1000, log });
const clients = () => new Clients(redis.store, []);
const parts = () => ({
  partitions: new Partitions(redis.store),
  limits: LIMITS,
  publicNames: new PublicNames(clients(), new NameKey(redis.store)),
  counters: counting(),
  log,
});
/** Returns a function that answers as `GET /metrics` does. */
const metricsPage = (given: ExpositionParts) => {
  const [row] = metricsApi(given);
  return async () => (await row?.handle({} as Call)) as unknown as Answer & { body: string };
};
const text = async (given: ExpositionParts = parts()) => (await metricsPage(given)()).body;
const show = async () => parsePrometheus(await text());

async function record(what: (recorder: Recorder) => void): Promise<void> {
  const counters = counting();
  what(new Recorder(counters));
  await counters.flush();
}

const series = (families: Map<string, ParsedFamily>, name: string) =>
  Object.fromEntries(families.get(name)?.series ?? []);

const EXISTING = { topics: ['a"b\\c\nd,e="f"}'], subscribers: ['a', 'b'] };

beforeEach(async () => {
  await redis.flush();
  const { redis: raw, keys } = redis.store;
  await raw.sadd(keys.topics(), ...EXISTING.topics);
  await raw.sadd(keys.subscribers(), ...EXISTING.subscribers);
});

test('each of two scrapes at the same time shows a lag of the event loop that was measured', async () => {
  const page = metricsPage(parts());
  const name = 'nodejs_eventloop_lag_min_seconds';
  for (const { body } of await Promise.all([page(), page()])) {
    // Without a sample, prom-client shows 292 years.
    assert.ok(Number(series(parsePrometheus(body), name)[name]) < 60);
  }
});

test('a Redis that may delete events is told from one that may not', async () => {
  const name = 'routemaster_redis_may_evict';
  const policyIs = (policy: string) => redis.store.redis.config('SET', 'maxmemory-policy', policy);
  assert.equal(series(await show(), name)[name], 0);
  await policyIs('allkeys-lru');
  assert.equal(series(await show(), name)[name], 1);
  await policyIs('noeviction');
});

test('an empty bus shows every family, and the metrics of the process', async () => {
  const families = await show();
  const ours = [...families.keys()].filter((name) => name.startsWith('routemaster_'));
  const histograms = ['delivery_duration', 'latency', 'delayed_lateness', 'triggers_lateness'].map(
    (each) => `routemaster_${each}_seconds`,
  );
  const names = Object.values(FAMILIES).map(({ name }) => name);
  assert.deepEqual(ours, [...names, ...histograms, 'routemaster_build_info']);
  assert.ok(families.has('process_cpu_seconds_total') && families.has('nodejs_eventloop_lag_seconds'));
  assert.deepEqual(series(families, 'routemaster_redis_memory_max_bytes'), {
    routemaster_redis_memory_max_bytes: 100 * 1024 * 1024,
  });
  assert.deepEqual(series(families, 'routemaster_jobs'), {
    'routemaster_jobs{queue="aux",state="instant"}': 0,
    'routemaster_jobs{queue="aux",state="pending"}': 0,
    'routemaster_jobs{queue="aux",state="scheduled"}': 0,
    'routemaster_jobs{queue="aux",state="waiting"}': 0,
    'routemaster_jobs{queue="main",state="instant"}': 0,
    'routemaster_jobs{queue="main",state="pending"}': 0,
    'routemaster_jobs{queue="main",state="scheduled"}': 0,
    'routemaster_jobs{queue="main",state="waiting"}': 0,
  });
});

test('docs/operating.md has every family in its table, and no other there or in an alert', async () => {
  const document = readFileSync(join(root, 'docs/operating.md'), 'utf8');
  const section = (heading: string) =>
    document.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ??
    assert.fail(`there is no section ${heading}`);
  const families = await show();
  const ours = [...families.keys()].filter((name) => name.startsWith('routemaster_'));
  const inTable = section('Metrics')
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(1)
    .map((line) => line.split(' | ').at(-1) ?? '')
    // Labels stand behind the names, such as "`jobs` by `queue`, `state`".
    .map((names) => names.replace(/ by `\w+`(?:, `\w+`)*/g, ''))
    .flatMap((names) => [...names.matchAll(/`(\w+)`/g)].map(([, name]) => `routemaster_${name}`));
  assert.deepEqual(inTable.sort(), ours.sort());
  const inAlerts = section('Alerts').match(/\broutemaster_\w+/g) ?? [];
  const known = new Set(ours);
  const familyOf = (name: string) => (known.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, ''));
  assert.deepEqual(
    inAlerts.filter((name) => !known.has(familyOf(name))),
    [],
  );
});

test('names follow the conventions of Prometheus', async () => {
  for (const [name, { type }] of await show()) {
    if (!name.startsWith('routemaster_')) continue;
    assert.equal(name.endsWith('_total'), type === 'counter', name);
    assert.doesNotMatch(name, /_(ms|milliseconds|kb|mb)(_|$)/);
  }
});

test('every counter is shown in base units', async () => {
  const { redis: raw, keys } = redis.store;
  const { token } = await clients().create('billing');
  for (const name of COUNTER_NAMES) {
    await raw.hset(
      keys.counters(),
      packField(name, { queue: token, topic: 'widgets', status: 'success', le: '1' }),
      2000,
    );
  }
  const families = await show();
  const shown = (name: string) => Object.values(series(families, `routemaster_${name}_total`));
  assert.deepEqual(shown('events_published'), [2000]);
  assert.deepEqual(shown('delivery_seconds'), [2]);
  assert.deepEqual(shown('delivery_seconds_squared'), [0.002]);
  assert.deepEqual(shown('batches_first_attempt_latency_seconds'), [2]);
  const counters = [...families].filter(
    ([name, { type }]) => name.startsWith('routemaster_') && type === 'counter',
  );
  assert.ok(counters.every(([, { series }]) => series.size > 0));
});

test('dead letters are counted by reason', async () => {
  const { token } = await clients().create('billing');
  await redis.store.redis.sadd(redis.store.keys.subscribers(), token);
  await record((recorder) => {
    recorder.buried(token, 'max_age', 4);
    recorder.buried(token, 'max_attempts', 1);
    recorder.buried(token, 'max_attempts', 2);
  });
  const families = await show();
  const labels = (reason: string) => `{subscriber="${token}",reason="${reason}"}`;
  assert.deepEqual(series(families, 'routemaster_events_dead_lettered_total'), {
    [`routemaster_events_dead_lettered_total${labels('max_age')}`]: 4,
    [`routemaster_events_dead_lettered_total${labels('max_attempts')}`]: 3,
  });
  assert.deepEqual(series(families, 'routemaster_batches_dead_lettered_total'), {
    [`routemaster_batches_dead_lettered_total${labels('max_age')}`]: 1,
    [`routemaster_batches_dead_lettered_total${labels('max_attempts')}`]: 2,
  });
});

test('deliveries appear in histograms', async () => {
  await record((recorder) => {
    for (const durationMs of [3, 5, 6, 400, 99_000]) {
      const result = { events: 1, durationMs, latencyMs: durationMs + 500 };
      recorder.delivered({ subscriber: 'a', status: 'success', ...result });
      recorder.delivered({ subscriber: 'b', status: durationMs > 100 ? 'failure' : 'success', ...result });
    }
  });
  const families = await show();
  const delivery = series(families, 'routemaster_delivery_duration_seconds');
  const bucket = (le: string, status: string) =>
    delivery[`routemaster_delivery_duration_seconds_bucket{le="${le}",status="${status}"}`];
  assert.deepEqual(
    ['0.005', '0.01', '0.25', '0.5', '30', '+Inf'].map((le) => bucket(le, 'success')),
    [4, 6, 6, 7, 7, 8],
  );
  assert.deepEqual(
    ['0.25', '0.5', '30', '+Inf'].map((le) => bucket(le, 'failure')),
    [0, 1, 1, 2],
  );
  assert.equal(delivery['routemaster_delivery_duration_seconds_sum{status="failure"}'], 99.4);
  const latency = series(families, 'routemaster_latency_seconds');
  assert.equal(latency['routemaster_latency_seconds_bucket{le="0.5"}'], 0);
  assert.equal(latency['routemaster_latency_seconds_bucket{le="0.75"}'], 6);
  assert.equal(latency.routemaster_latency_seconds_count, 8);
  assert.equal(latency.routemaster_latency_seconds_sum, (2 * (3 + 5 + 6) + 400 + 99_000 + 8 * 500) / 1000);
});

describe('labels', () => {
  test('are escaped', async () => {
    await record((recorder) => recorder.published('a"b\\c\nd,e="f"}', 1, 10));
    assert.deepEqual(series(await show(), 'routemaster_events_published_total'), {
      'routemaster_events_published_total{topic="a\\"b\\\\c\\nd,e=\\"f\\"}"}': 1,
    });
  });

  test('never show a token that is a credential', async () => {
    const secret = 'legacy--0123456789abcdef0123456789abcdef';
    const { token } = await clients().create('billing');
    await clients().register('legacy', secret);
    for (const each of [token, secret]) {
      await subscriptionsOf(redis.store).subscribe(each, {
        topics: [],
        callback: 'https://a.example/',
        uuid: '',
      });
      await record((recorder) => {
        recorder.added(each, 4);
        recorder.buried(each, 'max_age', 4);
      });
    }
    const shown = await text();
    assert.doesNotMatch(shown, /0123456789abcdef/);
    const added = series(parsePrometheus(shown), 'routemaster_events_added_total');
    assert.deepEqual(Object.values(added), [4, 4]);
    assert.ok(`routemaster_events_added_total{subscriber="${token}"}` in added);
    assert.match(Object.keys(added).join(), /subscriber="legacy\.[0-9a-f]{16}"/);
  });

  test('that are equal make one series', async () => {
    await record((recorder) => {
      recorder.added('a', 4);
      recorder.added('b', 5);
    });
    const publicNames = new PublicNames(clients(), new NameKey(redis.store));
    publicNames.of = async () => () => 'same';
    const families = parsePrometheus(await text({ ...parts(), publicNames }));
    assert.deepEqual(series(families, 'routemaster_events_added_total'), {
      'routemaster_events_added_total{subscriber="same"}': 9,
    });
  });
});

test('counters of unknown names are not shown', async () => {
  await redis.store.redis.hset(redis.store.keys.counters(), packField('other', { queue: 'a-token' }), 1);
  assert.doesNotMatch(await text(), /a-token/);
});

test('GET /metrics answers with the content type of the format', async () => {
  const { status, headers, body } = await metricsPage(parts())();
  assert.deepEqual([status, headers?.['Content-Type']], [200, 'text/plain; version=0.0.4; charset=utf-8']);
  assert.ok(parsePrometheus(body).has('routemaster_workers'));
});
