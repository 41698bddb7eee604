import { decode, encode } from '@msgpack/msgpack';
import { Packed } from './packed.ts';

/** The queues: `main` has the deliveries of batches, `aux` everything else. */
export const QUEUES = ['main', 'aux'] as const;
export type QueueName = (typeof QUEUES)[number];

/** Whose deliveries hold a part of the workers at most: those that are slow, or may be; and those that fail. */
export const SHARES = ['slow', 'failing'] as const;
export type Share = (typeof SHARES)[number];

/** A named call with arguments. Its packed form is what Redis stores, and its identity in its queue. */
export interface Job {
  name: string;
  args: unknown[];
}

/** MessagePack `[name, [arguments]]`. */
export function packJob(name: string, args: unknown[] = []): Buffer {
  const bytes = encode([name, args]);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** How packJob begins the job that delivers a batch; its UID follows, and nothing else. */
const DELIVERS = packJob('batch', ['-'.repeat(20)])
  .toString('latin1')
  .slice(0, -20);
const UID = /^[\w-]{20}$/;

/** The batch of a job that is stored just as packJob writes it: nearly all are. Scripts can write that too. */
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

/** The batch that a packed job delivers; empty if it does something else. */
export function deliveredBy(packed: Buffer): string {
  const job = unpackJob(Packed.of(packed));
  return job?.name === 'batch' && typeof job.args[0] === 'string' ? job.args[0] : '';
}
