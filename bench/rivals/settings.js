import { Redis } from 'ioredis';

export const QUEUE = 'deliveries';

/** As BullMQ's documentation has it for production: retries with exponential back-off, and jobs that do not pile up. */
export const JOB_OPTIONS = {
  attempts: 15,
  backoff: { type: 'exponential', delay: 1000 },
  removeOnComplete: true,
  removeOnFail: { count: 1000 },
};

/** `maxRetriesPerRequest`: null for a worker, which is to wait for Redis however long it is away. */
export function connect(options = {}) {
  const url = process.env.REDIS_URL ?? '';
  return url.startsWith('unix://')
    ? new Redis({ path: url.slice('unix://'.length), ...options })
    : new Redis(url, options);
}
