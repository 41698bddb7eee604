import assert from 'node:assert/strict';
import type { Readable } from './image.ts';
import { shortName } from './names.ts';
import type { State } from './state.ts';

/** The count of a log's records is rounded down to a multiple of this. */
const UNIT = 16;

const ENDINGS = ['taken', 'dropped'] as const;

/** The records of ended batches, by UID. */
export async function readRecords(
  store: Readable,
): Promise<Map<string, { token: string; ending: (typeof ENDINGS)[number]; record: unknown[] }>> {
  const records = new Map();
  for (const [ending, token, key] of await logsOf(store)) {
    const items = await store.redis.lrange(key, 0, -1);
    assert.equal(items.length % 2, 0, `${key} has UIDs and records`);
    for (let i = 0; i < items.length; i += 2) {
      const [id = '', text = ''] = items.slice(i, i + 2);
      assert.ok(!records.has(id), `${id} has ended once`);
      records.set(id, { token, ending, record: JSON.parse(`[${text}]`) });
    }
  }
  return records;
}

async function logsOf({ redis, keys }: Readable): Promise<[(typeof ENDINGS)[number], string, string][]> {
  const logs: [(typeof ENDINGS)[number], string, string][] = [];
  for (const ending of ENDINGS) {
    const prefix = ending === 'taken' ? keys.deliveries_taken('') : keys.deliveries_dropped('');
    for (const key of await redis.keys(`${prefix}*`)) logs.push([ending, key.slice(prefix.length), key]);
  }
  return logs;
}

/**
 * Checks the delivery logs: each record is of a batch that has ended, and of a subscriber that exists, and the records
 * are counted. Checks too that batches which were attempted and are not in flight are in the index of retries.
 */
export async function assertRecords(store: Readable, { batches, main, queued }: State): Promise<void> {
  const { redis, keys } = store;
  for (const [id, { token }] of await readRecords(store)) {
    assert.equal(await redis.exists(keys.batch(id)), 0, `${id} has ended`);
    assert.equal(await redis.exists(keys.dead_letter(id)), 0, `${id} has ended`);
    assert.equal(
      await redis.sismember(keys.subscribers(), token),
      1,
      `${token}, whose record ${id} is, exists`,
    );
  }
  await assertTrails(store);
  const counted: Record<string, string> = {};
  for (const [ending, token, key] of await logsOf(store)) {
    const records = (await redis.llen(key)) / 2;
    counted[`${ending} ${token}`] = String(records - (records % UNIT));
  }
  const flat = await redis.zrange(keys.deliveries_logs(), '0', '-1', 'WITHSCORES');
  const listed: Record<string, string> = {};
  for (let i = 0; i < flat.length; i += 2) listed[flat[i] ?? ''] = flat[i + 1] ?? '';
  assert.deepEqual(listed, counted, 'each log is listed with the number of its records');
  const total = Object.values(counted).reduce((sum, each) => sum + Number(each), 0);
  assert.equal(Number((await redis.hget(keys.deliveries_total(), 'records')) ?? 0), total, 'all are counted');
  const held = Object.values(main.pending).flat();
  for (const [token, names] of Object.entries(queued)) {
    const retrying = new Set((await redis.zrange(keys.batches_retrying(token), '0', '-1')).map(shortName));
    for (const name of names) {
      const attempts = batches[name]?.attempts ?? 0;
      const expected = attempts > 0 && (!held.includes(name) || retrying.has(name));
      assert.equal(retrying.has(name), expected, `${name} is listed if it is retried`);
    }
  }
  for (const key of await redis.keys(keys.batches_retrying('*'))) {
    const token = key.slice(keys.batches_retrying('').length);
    for (const id of await redis.zrange(key, '0', '-1'))
      assert.equal((await redis.lrange(keys.batch(id), 0, 0))[0], token, `${id} is a batch of ${token}`);
  }
}

/**
 * Checks the trails. A trail lists, for each script call, the subscribers to whose logs the call has added records. A
 * record must be of a subscriber that its call lists. Records of the oldest call in the trail, and older ones, are not
 * checked, because the trail may have lost their entries.
 */
async function assertTrails(store: Readable): Promise<void> {
  const { redis, keys } = store;
  const records = [...(await readRecords(store))];
  for (const ending of ENDINGS) {
    const calls: { atUs: number; tokens: Set<string> }[] = [];
    for (const entry of await redis.lrange(keys.deliveries_trail(ending), 0, -1)) {
      const [atUs = '', token = ''] = entry.split('\n');
      if (calls.at(-1)?.atUs !== Number(atUs)) calls.push({ atUs: Number(atUs), tokens: new Set() });
      calls.at(-1)?.tokens.add(token);
    }
    for (const [id, { token, record, ending: its }] of records) {
      if (its !== ending) continue;
      const endedUs = Number(record[0]);
      const call = calls.findLast(({ atUs }) => atUs < endedUs);
      if (call === undefined || call === calls[0]) continue;
      assert.ok(call.tokens.has(token), `the trail leads to the record of ${id}`);
    }
  }
}
