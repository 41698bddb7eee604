import { decode, encode } from '@msgpack/msgpack';

/** The two queues. `main` has the jobs that deliver batches, and `aux` has all other jobs. */
export const QUEUES = ['main', 'aux'] as const;
export type QueueName = (typeof QUEUES)[number];

/**
 * The names of the shares. A share limits how many workers may deliver at a time to all subscribers of one kind: `slow`
 * to slow or new subscribers, `failing` to failing ones, and `joins` to joins. The script `acquire` and the listing of
 * jobs go through the shares in this order.
 */
export const SHARES = ['slow', 'failing', 'joins'] as const;
export type Share = (typeof SHARES)[number];

/**
 * A job: a name with arguments. Redis stores a job as the bytes that `packJob` returns, which also identify the job in
 * its queue.
 */
export interface Job {
  name: string;
  args: unknown[];
}

/** Returns the packed form of a job: MessagePack `[name, [arguments]]`. */
export function packJob(name: string, args: unknown[] = []): Buffer {
  const bytes = encode([name, args]);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Decodes a packed job. Returns undefined if the bytes are not a job. */
export function unpackJob(packed: Buffer): Job | undefined {
  try {
    const value = decode(packed);
    if (!Array.isArray(value) || typeof value[0] !== 'string' || !Array.isArray(value[1])) return undefined;
    return { name: value[0], args: value[1] };
  } catch {
    return undefined;
  }
}

/** Returns the UID of the batch that a job delivers; undefined for other jobs. */
export function bidOf(packed: Buffer): string | undefined {
  const job = unpackJob(packed);
  return job?.name === 'batch' && typeof job.args[0] === 'string' ? job.args[0] : undefined;
}
