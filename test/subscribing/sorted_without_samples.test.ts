import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capturedLog } from '../../harness/captured_log.ts';
import { Api } from '../../harness/http/api.ts';
import { readConfig } from '../../src/config.ts';
import { sampleJob } from '../../src/maintenance/sampling.ts';
import { Partitions } from '../../src/store/partitions.ts';

const api = new Api();

async function subscribe(as: string): Promise<void> {
  const body = JSON.stringify({ topics: ['widgets'], callback: 'https://sub.example.com/events' });
  assert.equal((await api.call('POST', '/subscription', { as, body })).status, 204);
}

test('while no worker samples, a subscriber that came when another left is listed as sorted', async () => {
  await api.call('POST', '/topics/widgets', {
    as: 'pub',
    body: '{"type":"noop","url":"https://app.example.com/1"}',
  });
  await subscribe('left');
  const config = readConfig({ ROUTEMASTER_ROOT_KEY: 'root' });
  await sampleJob({ config, partitions: new Partitions(api.store), log: capturedLog().log })();
  const { redis, keys } = api.store;
  const standings = JSON.parse((await redis.get(keys.standings())) ?? '');
  const aMinuteAgo = { ...standings, atMs: standings.atMs - 60_000 };
  await redis.set(keys.standings(), JSON.stringify(aMinuteAgo));
  await api.call('DELETE', '/subscriber', { as: 'left' });
  await subscribe('came');
  for (const query of ['sort=name', 'name=came', 'state=healthy']) {
    const { text } = await api.call('GET', `/subscribers?${query}`, { as: 'root' });
    const listed = JSON.parse(text) as { subscriber: string }[];
    assert.deepEqual(
      listed.map(({ subscriber }) => subscriber),
      [await api.token('came')],
      query,
    );
  }
});
