import { type Spread, spread } from '../harness/measuring/statistics.ts';

/** The metrics, with their headings in tables. */
export const METRICS = {
  eventsPerSecond: 'events/s',
  batchesPerSecond: 'batches/s',
  receiverMicrosBatch: 'receiver µs/batch',
  clientMicros: 'client µs/event',
  webMicros: 'web µs/event',
  workerMicros: 'worker µs/event',
  workerMicrosBatch: 'worker µs/batch',
  redisMicros: 'Redis µs/event',
  redisMicrosBatch: 'Redis µs/batch',
  addedMicros: 'added µs/batch',
  added: 'added %',
  addedAtLeast: 'at least %',
  addedAtMost: 'at most %',
  busiest: 'busiest Redis × mean',
  redisMicrosMore: 'Redis µs/event a further subscriber',
  p50Ms: 'p50 ms',
  p99Ms: 'p99 ms',
  p50MsMore: 'p50 ms more than one Redis',
  lateP50Ms: 'p50 ms after the deadline',
  lateP99Ms: 'p99 ms after the deadline',
  commandsPerSecond: 'commands/s a process',
  busPercent: 'web + worker % of a core',
  webPercent: 'web %',
  workerPercent: 'worker %',
  redisPercent: 'Redis %',
  bytes: 'bytes/event',
  bytesEach: 'bytes each',
  timesJson: '× JSON',
  webMiB: 'web MiB',
  workerMiB: 'worker MiB',
  redisMiB: 'Redis MiB',
  webGrowth: 'web × early',
  workerGrowth: 'worker × early',
  seconds: 'seconds',
  scriptMs: 'longest call ms',
  otherScriptMs: 'of other scripts ms',
} as const;

export type Metric = keyof typeof METRICS;

/** One measurement, with the metrics that it has. */
export type Figures = Partial<Record<Metric, number>>;

/** One row of a table: something that was measured several times. */
export interface Row {
  name: string;
  /** The names of the rows that this one is compared with; empty for a floor. */
  floors: string[];
  repetitions: Figures[];
}

/** Rows that were measured in turn, so that repetition n of each saw the machine in the same state. */
export interface Table {
  title: string;
  /** Remarks that a reader needs to understand the figures. */
  notes: string[];
  rows: Row[];
}

/** The median, min and max of a metric; undefined if the row has none. */
export function summary(row: Row, metric: Metric): Spread | undefined {
  const values = row.repetitions.flatMap((figures) => figures[metric] ?? []);
  return values.length === 0 ? undefined : spread(values);
}

/** The ratio of a row's metric to its floor's, repetition by repetition; undefined if one of the two has none. */
export function ratio(row: Row, floor: Row, metric: Metric): Spread | undefined {
  const values = row.repetitions.flatMap((figures, index) => {
    const [own, its] = [figures[metric], floor.repetitions[index]?.[metric]];
    return own === undefined || its === undefined || its === 0 ? [] : own / its;
  });
  return values.length === 0 ? undefined : spread(values);
}
