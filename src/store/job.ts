import { decode, encode } from '@msgpack/msgpack';
import { Packed } from './packed.ts';

/** `main` has the deliveries of batches, `aux` everything else. */
export const QUEUES = ['main', 'aux'] as const;
export type QueueName = (typeof QUEUES)[number];

/**
 * Deliveries to slow subscribers together may hold a part of the workers only, and so may those to failing
 * subscribers.
 */
export const SHARES = ['slow', 'failing'] as const;
export type Share = (typeof SHARES)[number];

/** A named call with arguments. Redis stores its packed form, which also identifies it in its queue. */
export interface Job {
  name: string;
  args: unknown[];
}

/** MessagePack `[name, [arguments]]`. */
export function packJob(name: string, args: unknown[] = []): Buffer {
  const bytes = encode([name, args]);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The packed job that delivers a batch begins so. Only the UID of the batch follows. */
const DELIVERS = packJob('batch', ['-'.repeat(20)])
  .toString('latin1')
  .slice(0, -20);
const UID = /^[\w-]{20}$/;

/**
 * The batch of a delivery that is stored exactly as packJob writes it. Scripts can make such a job from the
 * batch's UID.
 */
export function batchOf({ text }: Packed): string | undefined {
  const bid = text.slice(DELIVERS.length);
  return text.startsWith(DELIVERS) && UID.test(bid) ? bid : undefined;
}

/** Undefined if the bytes are no job. */
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

/** The batch that a packed job delivers. Empty if the job does something else. */
export function deliveredBy(packed: Buffer): string {
  const job = unpackJob(Packed.of(packed));
  return job?.name === 'batch' && typeof job.args[0] === 'string' ? job.args[0] : '';
}
