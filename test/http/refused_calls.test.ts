import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { Api, problemIn } from '../../harness/http/api.ts';
import { root } from '../../harness/processes/command.ts';
import { until } from '../../harness/until.ts';
import { REFUSALS, RefusedCalls } from '../../src/http/refused_calls.ts';

const EVENT = '{"type":"noop","url":"https://app.example.com/1"}';
const api = new Api({ env: { ROUTEMASTER_COUNTER_FLUSH_INTERVAL: '1' } });
const publish = () => api.call('POST', '/topics/widgets', { as: 'pub', body: EVENT });

async function refused(code: string): Promise<number> {
  const { status, text } = await api.call('GET', '/metrics', { as: 'root' });
  assert.equal(status, 200);
  return Number(text.match(`routemaster_calls_refused_total{code="${code}"} (\\d+)`)?.[1] ?? 0);
}

test('publishes that a Redis without writes refuses are counted while that lasts, and still afterwards', async () => {
  assert.equal((await publish()).status, 204);
  // The figures of a subscriber are read by a script, which a Redis without writes must run too.
  const body = '{"topics":["widgets"],"callback":"https://sub.example.com/events","uuid":"u"}';
  assert.equal((await api.call('POST', '/subscription', { as: 'sub', body })).status, 204);
  const { redis } = api.store;
  await redis.config('SET', 'min-replicas-to-write', '1');
  for (let n = 0; n < 3; n++) assert.equal(problemIn(await publish()).code, 'storage_unavailable');
  await until(async () => (await refused('storage_unavailable')) === 3);
  await api.web.prints(/"level":40.*"code":"storage_unavailable","calls":1,"msg":"refused calls"/);
  await redis.config('SET', 'min-replicas-to-write', '0');
  const stored = async () => (await redis.hvals(api.store.keys.counters())).includes('3');
  await until(stored);
  assert.equal(await refused('storage_unavailable'), 3);
});

test('calls that the caller has to correct are not counted', async () => {
  await api.call('POST', '/topics/widgets', { as: 'pub', body: '{' });
  await api.call('GET', '/topics');
  await api.call('GET', '/nowhere', { as: 'root' });
  const { text } = await api.call('GET', '/metrics', { as: 'root' });
  assert.doesNotMatch(text, /routemaster_calls_refused_total{code="(?!storage_unavailable)/);
});

test('the log tells of each code at once, and of a flood of refused calls once a minute', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { log, lines } = capturedLog();
  let counted = 0;
  const calls = new RefusedCalls({ callRefused: () => counted++ }, log);
  const told = () => lines.splice(0).map((line) => [line.level, line.code, line.calls]);
  for (let n = 0; n < 1000; n++) calls.count('overloaded');
  calls.count('rate_limited');
  calls.count('unauthenticated');
  assert.deepEqual(told(), [
    [40, 'overloaded', 1],
    [40, 'rate_limited', 1],
  ]);
  t.mock.timers.tick(59_999);
  assert.deepEqual(told(), []);
  t.mock.timers.tick(1);
  assert.deepEqual(told(), [[40, 'overloaded', 999]]);
  t.mock.timers.tick(60_000);
  calls.count('overloaded');
  assert.deepEqual(told(), [[40, 'overloaded', 1]]);
  assert.equal(counted, 1002);
});

test('docs/operating.md lists the codes that are counted', () => {
  const document = readFileSync(join(root, 'docs/operating.md'), 'utf8');
  const row = document.split('\n').find((line) => line.includes('| `calls_refused_total`')) ?? '';
  const codes = [...row.matchAll(/`(\w+)`/g)].map(([, code]) => code);
  assert.deepEqual(codes.sort(), [...REFUSALS, 'calls_refused_total', 'code', 'code'].sort());
});
