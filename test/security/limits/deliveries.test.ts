import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { TestStore } from '../../../harness/redis/store.ts';
import { Bus } from '../../../harness/scripts/bus.ts';
import { assertConsistent } from '../../../harness/scripts/invariants.ts';
import { nthWord } from '../../../harness/scripts/names.ts';
import { readRecords } from '../../../harness/scripts/records.ts';

const MAX_RECORDS = 100;
const MAX_RECORD_BYTES = 1024;

const CUT = { deliveryLog: MAX_RECORDS, begunTopics: [] };

const redis = new TestStore();
const bus = new Bus(() => redis.store);
let calls = 0;

beforeEach(() => redis.flush());

/** Ends a batch of the subscriber, after two failures with answers of 256 characters. */
async function end(token: string, ending: 'taken' | 'dropped'): Promise<void> {
  const attempt = JSON.stringify({
    at: 1,
    status: 500,
    duration_ms: 9,
    reason: 'x',
    answer: '"'.repeat(256),
  });
  await bus.publish(nthWord(calls++), token, ['e']);
  for (let failures = 0; failures < 2; failures++) {
    const [grant] = (await bus.acquire(['w1'])).grants;
    await bus.nack('w1', grant?.job ?? '', { attempt });
  }
  if (ending === 'dropped') await bus.store.run('autodrop', { ...CUT, orders: [{ token, maxDeleted: 1 }] });
  else {
    const [grant] = (await bus.acquire(['w1'], { deliveryLog: MAX_RECORDS })).grants;
    const finished = [{ worker: 'w1', job: grant?.job ?? '' }];
    await bus.acquire([], { finished, deliveryLog: MAX_RECORDS });
  }
}

for (const ending of ['taken', 'dropped'] as const)
  test(`a subscriber of whose batches many are ${ending} has its part of the records, each short`, async () => {
    for (const token of ['quiet', 'busy']) await bus.subscribe(token, { topics: [token], max: 1 });
    for (let i = 0; i < 20; i++) await end('quiet', 'taken');
    for (let i = 0; i < 2 * MAX_RECORDS; i++) await end('busy', ending);
    const records = [...(await readRecords(redis.store)).values()];
    assert.equal(records.filter(({ token }) => token === 'quiet').length, 20);
    assert.ok(records.length <= MAX_RECORDS, `${records.length} records`);
    for (const { record } of records)
      assert.ok(Buffer.byteLength(JSON.stringify(record)) <= MAX_RECORD_BYTES, JSON.stringify(record));
    await assertConsistent(redis.store);
  });
