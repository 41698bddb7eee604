import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { beforeEach, type TestContext, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { subscriptionsOf } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { monitorJob } from '../../src/maintenance/monitor.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { seriesOf } from '../../src/metrics/series.ts';
import { Partitions } from '../../src/store/partitions.ts';

const redis = new TestStore();
const SECRET = 'legacy--0123456789abcdef';

function config(service: Config['metricService'], port = 1): Config {
  return readConfig({
    ROUTEMASTER_ROOT_KEY: 'root',
    NODE_ENV: 'staging',
    ROUTEMASTER_APP_NAME: 'bus',
    METRIC_COLLECTION_SERVICE: service,
    DD_DOGSTATSD_PORT: String(port),
  });
}

/** Runs the job once; `meanwhile` is called after it has read the counters. */
async function monitor(settings: Config, meanwhile = async () => {}): Promise<Record<string, unknown>[]> {
  const { log, lines } = capturedLog();
  const publicNames = new PublicNames(new Clients(redis.store, []), new NameKey(redis.store));
  const { of } = publicNames;
  publicNames.of = (tokens) => meanwhile().then(() => of.call(publicNames, tokens));
  await monitorJob({ config: settings, partitions: new Partitions(redis.store), publicNames, log })();
  return lines;
}

async function published(events: number, topic = 'widgets'): Promise<void> {
  const counters = new Counters(new Partitions(redis.store), {
    flushIntervalMs: 1000,
    log: capturedLog().log,
  });
  new Recorder(counters).published(topic, events, 100 * events);
  await counters.flush();
}

beforeEach(async () => {
  await redis.flush();
  await new Clients(redis.store, []).register('legacy', SECRET);
  await subscriptionsOf(redis.store).subscribe(SECRET, {
    topics: ['widgets'],
    callback: 'https://a.example/',
    uuid: '',
  });
  await published(3);
});

test('logs one line per figure, without showing a token that is a credential', async () => {
  const lines = await monitor(config('print'));
  const bus = { env: 'staging', app: 'bus' };
  const shown = lines.map(({ counter, gauge, value, tags }) => ({ name: counter ?? gauge, value, tags }));
  const find = (name: string) => shown.filter((line) => line.name === name);
  assert.deepEqual(find('events.published'), [
    { name: 'events.published', value: 3, tags: { topic: 'widgets', ...bus } },
  ]);
  assert.deepEqual(find('jobs.due'), [
    { name: 'jobs.due', value: 0, tags: { queue: 'main', ...bus } },
    { name: 'jobs.due', value: 0, tags: { queue: 'aux', ...bus } },
  ]);
  assert.equal(find('subscriber.queue.events').length, 1);
  assert.doesNotMatch(JSON.stringify(lines), new RegExp(SECRET));
});

/** Returns a function that runs the job once, and resolves with the lines that it sends to a DogStatsD agent. */
async function sendingTo(t: TestContext): Promise<(meanwhile?: () => Promise<void>) => Promise<string>> {
  const agent = createSocket('udp4').bind(0, '127.0.0.1');
  t.after(() => agent.close());
  await once(agent, 'listening');
  let text = '';
  agent.on('message', (message) => {
    text += `${message}\n`;
  });
  const settings = config('datadog', agent.address().port);
  return async (meanwhile) => {
    text = '';
    await monitor(settings, meanwhile);
    await until(() => /^routemaster\.redis\.used_cpu_user:/m.test(text));
    return text;
  };
}

test('sends gauges, and the growth of counters, to a DogStatsD agent', async (t) => {
  const run = await sendingTo(t);
  const first = await run();
  assert.match(first, /^routemaster\.events\.published:3\|c\|#topic:widgets,env:staging,app:bus$/m);
  assert.match(first, /^routemaster\.jobs\.count:0\|g\|#queue:main,status:instant,env:staging,app:bus$/m);
  assert.match(first, /^routemaster\.subscriber\.queue\.batches:0\|g\|#subscriber:legacy\.[0-9a-f]{16},env/m);
  assert.doesNotMatch(first, new RegExp(SECRET));
  await published(4);
  assert.match(await run(), /^routemaster\.events\.published:4\|c\|/m);
  assert.doesNotMatch(await run(), /events\.published/);
});

test('sends no count again if a topic is removed while the job runs', async (t) => {
  const run = await sendingTo(t);
  const sent = (text: string) => text.match(/^routemaster\.events\.published:.*?(?=,env:)/gm) ?? [];
  const remove = async (topic: string) => {
    await redis.store.run('remove_topic', { topic, series: seriesOf({ topic }) });
  };
  const bus = new Bus(() => redis.store);
  await bus.publish('shop', 'gadgets', ['one']);
  await bus.publish('shop', 'widgets', ['one']);
  await published(5, 'gadgets');
  await run();
  await remove('gadgets');
  await published(1);
  assert.deepEqual(sent(await run()), ['routemaster.events.published:1|c|#topic:widgets']);
  await published(2);
  assert.deepEqual(sent(await run(() => remove('widgets'))), []);
  assert.deepEqual(sent(await run()), ['routemaster.events.published:2|c|#topic:(removed)']);
});

test('sends nothing if Prometheus scrapes the figures', async () => {
  assert.deepEqual(await monitor(config('prometheus')), []);
});
