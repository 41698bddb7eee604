import { decode, encode } from '@msgpack/msgpack';

/** The queues: `main` has the deliveries of batches, `aux` everything else. */
export const QUEUES = ['main', 'aux'] as const;
export type QueueName = (typeof QUEUES)[number];

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

/** Undefined if the bytes are no job. */
export function unpackJob(packed: Buffer): Job | undefined {
  try {
    const value = decode(packed);
    if (!Array.isArray(value) || typeof value[0] !== 'string' || !Array.isArray(value[1])) return undefined;
    return { name: value[0], args: value[1] };
  } catch {
    return undefined;
  }
}
