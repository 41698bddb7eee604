import { Redis } from 'ioredis';

export const QUEUE = 'deliveries';

/** BullMQ's documentation advises this for production: retries with exponential back-off, and no pile of old jobs. */
export const JOB_OPTIONS = {
  attempts: 15,
  backoff: { type: 'exponential', delay: 1000 },
  removeOnComplete: true,
  removeOnFail: { count: 1000 },
};

/** A worker gives `maxRetriesPerRequest: null`, so that it waits for Redis however long Redis is away. */
export function connect(options = {}) {
  const url = process.env.REDIS_URL ?? '';
  return url.startsWith('unix://')
    ? new Redis({ path: url.slice('unix://'.length), ...options })
    : new Redis(url, options);
}
