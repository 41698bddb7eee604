import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { until } from '../../harness/until.ts';
import { Clients } from '../../src/authentication/client.ts';
import { NameKey } from '../../src/authentication/name_key.ts';
import { PublicNames } from '../../src/authentication/public_names.ts';
import { readConfig } from '../../src/config.ts';
import { Quarantine } from '../../src/delivering/quarantine.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import { OwnerLimit } from '../../src/routing/owner_limit.ts';

const DEATHS = 6;
/** Half of the fifth pause, as far as jitter may shorten it. */
const MIN_LAST_PAUSE_MS = 400;

const redis = new TestStore();

test('a quarantine that dies at each start is started again after growing pauses', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'routemaster-quarantine-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'dies.mjs');
  writeFileSync(file, 'process.exit(1);');
  const { store } = redis;
  await store.redis.rpush(store.keys.jobs_suspect(), 'a job');
  const { log, lines } = capturedLog();
  const quarantine = new Quarantine({
    file: pathToFileURL(file),
    config: readConfig({ ROUTEMASTER_ROOT_KEY: 'key-of-root' }),
    partition: store,
    recorder: new Recorder({ increment: () => {} }),
    publicNames: new PublicNames(new Clients(store, []), new NameKey(store)),
    oneAtATime: new OwnerLimit(1),
    log,
  });
  const diedAtMs: number[] = [];
  quarantine.start(undefined);
  await until(() => {
    const deaths = lines.filter(({ msg }) => msg === 'a quarantine died').length;
    while (diedAtMs.length < deaths) diedAtMs.push(performance.now());
    return deaths >= DEATHS;
  });
  await quarantine.stop(0);
  const [before = 0, last = 0] = diedAtMs.slice(DEATHS - 2);
  assert.ok(last - before >= MIN_LAST_PAUSE_MS, `it paused for ${last - before} ms`);
});
