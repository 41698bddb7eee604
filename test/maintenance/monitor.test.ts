import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { beforeEach, test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { subscriptionsOf } from '../../harness/subscriptions.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { monitorJob } from '../../src/maintenance/monitor.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
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

async function monitor(settings: Config): Promise<Record<string, unknown>[]> {
  const { log, lines } = capturedLog();
  const publicNames = new PublicNames(new Clients(redis.store, []), new NameKey(redis.store));
  await monitorJob({ config: settings, partitions: new Partitions(redis.store), publicNames, log })();
  return lines;
}

async function published(events: number): Promise<void> {
  const counters = new Counters(new Partitions(redis.store), {
    flushIntervalMs: 1000,
    log: capturedLog().log,
  });
  new Recorder(counters).published('widgets', events, 100 * events);
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

test('sends gauges, and the growth of counters, to a DogStatsD agent', async (t) => {
  const agent = createSocket('udp4').bind(0, '127.0.0.1');
  t.after(() => agent.close());
  await once(agent, 'listening');
  let text = '';
  agent.on('message', (message) => {
    text += `${message}\n`;
  });
  const settings = config('datadog', agent.address().port);
  const run = async () => {
    text = '';
    await monitor(settings);
    await until(() => /^routemaster\.redis\.used_cpu_user:/m.test(text));
    return text;
  };
  const first = await run();
  assert.match(first, /^routemaster\.events\.published:3\|c\|#topic:widgets,env:staging,app:bus$/m);
  assert.match(first, /^routemaster\.jobs\.count:0\|g\|#queue:main,status:instant,env:staging,app:bus$/m);
  assert.match(first, /^routemaster\.subscriber\.queue\.batches:0\|g\|#subscriber:legacy\.[0-9a-f]{16},env/m);
  assert.doesNotMatch(first, new RegExp(SECRET));
  await published(4);
  assert.match(await run(), /^routemaster\.events\.published:4\|c\|/m);
  assert.doesNotMatch(await run(), /events\.published/);
});

test('sends nothing if Prometheus scrapes the figures', async () => {
  assert.deepEqual(await monitor(config('prometheus')), []);
});
