import { decode, encode } from '@msgpack/msgpack';
import { Packed } from './packed.ts';

/** The queue `main` has the jobs that deliver batches; `aux` has all other jobs. */
export const QUEUES = ['main', 'aux'] as const;
export type QueueName = (typeof QUEUES)[number];

/**
 * The names of the shares. A share limits how many workers may deliver to all slow subscribers, or to all
 * failing ones, or count for all joins.
 */
export const SHARES = ['slow', 'failing', 'joins'] as const;
export type Share = (typeof SHARES)[number];

/** A named call with arguments. Redis stores its packed form, which identifies the job in its queue. */
export interface Job {
  name: string;
  args: unknown[];
}

/** Returns the packed form of a job: MessagePack `[name, [arguments]]`. */
export function packJob(name: string, args: unknown[] = []): Buffer {
  const bytes = encode([name, args]);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The bytes of a packed delivery before the UID of its batch, as text with one character per byte. */
const DELIVERS = packJob('batch', ['-'.repeat(20)])
  .toString('latin1')
  .slice(0, -20);
const UID = /^[\w-]{20}$/;

/** Returns the UID of the batch if the job is a delivery packed as by packJob; otherwise undefined. */
export function batchOf({ text }: Packed): string | undefined {
  const bid = text.slice(DELIVERS.length);
  return text.startsWith(DELIVERS) && UID.test(bid) ? bid : undefined;
}

/** Decodes a packed job. Returns undefined if the bytes are not a job. */
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

/** Returns the UID of the batch that a packed job delivers; an empty text for other jobs. */
export function deliveredBy(packed: Buffer): string {
  const job = unpackJob(Packed.of(packed));
  return job?.name === 'batch' && typeof job.args[0] === 'string' ? job.args[0] : '';
}
