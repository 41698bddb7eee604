import assert from 'node:assert/strict';
import { packJob } from '../../src/store/job.ts';
import type { Readable } from './image.ts';
import { jobName } from './names.ts';
import type { State } from './state.ts';

/** Asserts that each list of entries for other partitions has a job, and that their bytes are counted. */
export async function assertOutboxes({ redis, keys }: Readable, state: State): Promise<void> {
  const bytesIn = async (key: string, ...args: number[]) => {
    const entries = await redis.lrangeBuffer(key, 0, -1);
    const hasJob = state.aux.index.includes(jobName(packJob('outbox', args)));
    assert.ok(hasJob || entries.length === 0, `${key} has its job`);
    return String(entries.reduce((sum, { length }) => sum + length, 0));
  };
  const counted = (await redis.hget(keys.outboxes_sent(), 'bytes')) ?? '0';
  assert.equal(counted, await bytesIn(keys.outbox()), 'the bytes of the outbox are counted');
  const aside: Record<string, string> = {};
  for (const key of await redis.keys(keys.outbox_aside('*'))) {
    const partition = key.slice(keys.outbox_aside('').length);
    aside[partition] = await bytesIn(key, Number(partition));
  }
  assert.deepEqual(await redis.hgetall(keys.outboxes_bytes()), aside, 'the bytes set aside are counted');
}
