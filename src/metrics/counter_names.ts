/**
 * Every counter of the bus. Times are in ms. `queue` is a subscriber's token, save in `jobs.scrubbed` (`main`, `aux`).
 * The names up to `process`, and their tags, are the Ruby Routemaster's, so that its counters go on.
 */
export const COUNTER_NAMES = [
  // topic
  'events.published',
  'events.bytes',
  // queue
  'events.added',
  'events.removed',
  'events.autodropped',
  // queue, status: success or failure; time2 is the sum of the squares
  'delivery.events',
  'delivery.batches',
  'delivery.time',
  'delivery.time2',
  // queue; count is of the batches tried at least once, the others the time from their creation
  'latency.batches.count',
  'latency.batches.first_attempt',
  'latency.batches.last_attempt',
  // queue: main or aux
  'jobs.scrubbed',
  'workers.scrubbed',
  // status: start or stop; type: web or worker
  'process',
  // Ours: queue, reason; dead letters made.
  'events.dead_lettered',
  'batches.dead_lettered',
  // Ours: reason, of src/authentication/verdict.ts
  'authentication.failed',
  // Ours: those of them that were answered 429
  'authentication.slowed',
  // Ours: kind, of src/maintenance/sweep/finding.ts
  'sweep.findings',
  // Ours: histograms of the whole bus. le, the bucket's upper bound in seconds; status. A bucket does not count the lower ones.
  'delivery.duration.bucket',
  'delivery.duration.sum',
  'latency.end_to_end.bucket',
  'latency.end_to_end.sum',
] as const;

export type CounterName = (typeof COUNTER_NAMES)[number];
