import { decode, encode } from '@msgpack/msgpack';
import { Packed } from './packed.ts';

/** The queue `main` holds the deliveries of batches, `aux` all other jobs. */
export const QUEUES = ['main', 'aux'] as const;
export type QueueName = (typeof QUEUES)[number];

/** Slow subscribers, and failing ones: deliveries to each group may occupy only a part of the workers. */
export const SHARES = ['slow', 'failing'] as const;
export type Share = (typeof SHARES)[number];

/** A named call with arguments. Redis stores its packed form, which identifies the job in its queue. */
export interface Job {
  name: string;
  args: unknown[];
}

/** MessagePack `[name, [arguments]]`. */
export function packJob(name: string, args: unknown[] = []): Buffer {
  const bytes = encode([name, args]);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The first bytes of a packed job that delivers a batch. Only the batch's id follows. */
const DELIVERS = packJob('batch', ['-'.repeat(20)])
  .toString('latin1')
  .slice(0, -20);
const UID = /^[\w-]{20}$/;

/** Returns the batch's id if the job is a delivery packed exactly as by packJob; otherwise undefined. */
export function batchOf({ text }: Packed): string | undefined {
  const bid = text.slice(DELIVERS.length);
  return text.startsWith(DELIVERS) && UID.test(bid) ? bid : undefined;
}

/** Decodes a job; undefined if the bytes are not a job. */
export function unpackJob(packed: Packed): Job | undefined {
  const bid = batchOf(packed);
  if (bid !== undefined) return { name: 'batch', args: [bid] };
  try {
    const value = decode(packed.toBuffer());
    if (!Array.isArray(value) || typeof value[0] !== 'string' || !Array.isArray(value[1])) return undefined;
    return { name: value[0], args: value[1] };
  } catch {
    return undefined;
  }
}

/** Returns the id of the batch that a packed job delivers; empty for other jobs. */
export function deliveredBy(packed: Buffer): string {
  const job = unpackJob(Packed.of(packed));
  return job?.name === 'batch' && typeof job.args[0] === 'string' ? job.args[0] : '';
}
