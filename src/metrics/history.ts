import { decode } from '@msgpack/msgpack';
import type { Partitions } from '../store/partitions.ts';
import { msOf } from '../store/replies.ts';

/**
 * The figures in one entry of a history, in stored order. `published`, `delivered`, `failed`, `latencyMs`,
 * `latencies` and `dropped` are totals since the bus was installed. The others are values at the time of the entry.
 */
export const STORED = {
  bus: [
    ...(['published', 'delivered', 'failed', 'latencyMs', 'latencies'] as const),
    ...(['queued', 'oldestSeconds', 'memory', 'subscribers', 'failing', 'paused', 'deadLetters'] as const),
    'dropped',
  ],
  subscriber: ['delivered', 'failed', 'queued', 'oldestSeconds'],
  topic: ['published'],
} as const;
export type SubjectKind = keyof typeof STORED;
export type Figures<K extends SubjectKind> = Record<(typeof STORED)[K][number], number>;
type AnyFigures = Partial<Figures<'bus'>>;

/**
 * The two resolutions of a history. `ms` is the time from one entry to the next. `kept` is the maximum number of
 * entries: the points of the longest plot and one more, because a point can be the difference between two entries.
 */
export const STEPS = {
  fine: { ms: 10_000, kept: 361 },
  coarse: { ms: 300_000, kept: 577 },
} as const;

export const RANGES = {
  '1h': { step: 'fine', points: 360 },
  '24h': { step: 'coarse', points: 288 },
  '48h': { step: 'coarse', points: 576 },
} as const satisfies Record<string, { step: keyof typeof STEPS; points: number }>;
export type RangeName = keyof typeof RANGES;

interface Metric {
  unit: 'events/s' | 'events' | 's' | 'ms' | 'bytes' | 'batches';
  of: readonly SubjectKind[];
  /**
   * Returns the metric at one sample of the bus, or null if it has no value. `now` has the figures at this sample, and
   * `before` those at the previous one, `seconds` earlier.
   */
  value(now: AnyFigures, before: AnyFigures, seconds: number): number | null;
}

const grown = (name: keyof AnyFigures, now: AnyFigures, before: AnyFigures) =>
  Math.max(0, (now[name] ?? 0) - (before[name] ?? 0));
/** A rate, rounded to five decimals: one event in five minutes is 0.00333 events a second. */
const perSecond =
  (name: keyof AnyFigures): Metric['value'] =>
  (now, before, seconds) =>
    Math.round((grown(name, now, before) / seconds) * 100_000) / 100_000;
const asItIs =
  (name: keyof AnyFigures): Metric['value'] =>
  (now) =>
    now[name] ?? null;

/** The metrics that `GET /history` returns. */
export const METRICS = {
  published: { unit: 'events/s', of: ['bus', 'topic'], value: perSecond('published') },
  delivered: { unit: 'events/s', of: ['bus', 'subscriber'], value: perSecond('delivered') },
  failed: { unit: 'events/s', of: ['bus', 'subscriber'], value: perSecond('failed') },
  queued: { unit: 'events', of: ['bus', 'subscriber'], value: asItIs('queued') },
  oldest: { unit: 's', of: ['bus', 'subscriber'], value: asItIs('oldestSeconds') },
  // The mean latency of the batches that were accepted since the previous entry of the history.
  latency: {
    unit: 'ms',
    of: ['bus'],
    value(now, before) {
      const taken = grown('latencies', now, before);
      return taken === 0 ? null : Math.round(grown('latencyMs', now, before) / taken);
    },
  },
  memory: { unit: 'bytes', of: ['bus'], value: asItIs('memory') },
  dead: { unit: 'batches', of: ['bus'], value: asItIs('deadLetters') },
} as const satisfies Record<string, Metric>;
export type MetricName = keyof typeof METRICS;

/** Values of metrics, one for each `step` of time. Times are in ms since the Unix epoch. */
interface Shown {
  /** The time of the first value. */
  start: number;
  step: number;
  /** The values of each metric, one for each step of time. Null stands for a step for which nothing is known. */
  metrics: Partial<Record<MetricName, { unit: Metric['unit']; values: (number | null)[] }>>;
}

interface Entry {
  slot: number;
  figures: AnyFigures;
}

/** Reads the histories that the job `sample` writes. Its methods can throw StorageUnavailable. */
export class History {
  readonly #partitions: Partitions;

  constructor(partitions: Partitions) {
    this.#partitions = partitions;
  }

  /**
   * Returns the newest figures of the bus. They were sampled in the ten seconds after `atMs`. Returns undefined if
   * there is no sample.
   */
  async latest(): Promise<{ atMs: number; figures: Figures<'bus'> } | undefined> {
    const [newest] = await this.#entries('bus', '', 'fine', 1);
    return newest && { atMs: newest.slot * STEPS.fine.ms, figures: newest.figures as Figures<'bus'> };
  }

  /**
   * Returns how many events the bus has dropped in about the last `ms`, because memory was short. Returns undefined if
   * it has dropped none. The events are counted from samples, so the time of the last drop is not known exactly: it was
   * at most `agoMs` before the newest sample.
   */
  async droppedWithin(ms: number): Promise<{ events: number; agoMs: number } | undefined> {
    const kept = Math.ceil(ms / STEPS.coarse.ms) + 1;
    const [entries, [newest]] = await Promise.all([
      this.#entries('bus', '', 'coarse', kept),
      this.#entries('bus', '', 'fine', 1),
    ]);
    if (!newest) return undefined;
    const newestMs = newest.slot * STEPS.fine.ms;
    const lately = entries.filter(({ slot }) => slot * STEPS.coarse.ms >= newestMs - ms);
    const droppedSince = ({ figures }: Entry) => grown('dropped', newest.figures, figures);
    const [first] = lately;
    const before = lately.findLast((entry) => droppedSince(entry) > 0);
    if (!first || !before) return undefined;
    return { events: droppedSince(first), agoMs: newestMs - before.slot * STEPS.coarse.ms };
  }

  /** Returns the history of the bus, a topic or a subscriber: the values of `metric`, or of all its metrics. */
  async read(kind: SubjectKind, name: string, range: RangeName, metric?: MetricName): Promise<Shown> {
    const { step, points } = RANGES[range];
    const { ms, kept } = STEPS[step];
    const [time, ofBus, own] = await Promise.all([
      this.#partitions.control.command((redis) => redis.time()),
      this.#entries('bus', '', step, points + 1),
      kind === 'bus' ? undefined : this.#entries(kind, name, step, kept),
    ]);
    const changes = changesOf(
      ofBus.map(({ slot }) => slot),
      own ?? ofBus,
    );
    const first = Math.floor(msOf(time) / ms) - points + 1;
    const slots = Array.from({ length: points }, (_, index) => first + index);
    const asked = metricsOf(kind).filter((each) => metric === undefined || each === metric);
    const metrics = asked.map((each) => {
      const { unit, value }: Metric = METRICS[each];
      const values = slots.map((slot) => {
        const change = changes.get(slot);
        return change ? value(change.now, change.before, (change.slots * ms) / 1000) : null;
      });
      return [each, { unit, values }];
    });
    return { start: first * ms, step: ms, metrics: Object.fromEntries(metrics) };
  }

  /** Returns the newest `count` entries of a history, oldest first. */
  async #entries(kind: SubjectKind, name: string, step: keyof typeof STEPS, count: number): Promise<Entry[]> {
    const subject = kind === 'bus' ? kind : `${kind}:${name}`;
    const stored = await this.#partitions
      .ofSubject({ [kind]: name })
      .command((redis, keys) => redis.lrangeBuffer(keys[`history_${step}`](subject), -count, -1));
    return stored.map((packed) => {
      const [slot = 0, ...values] = decode(packed) as number[];
      return { slot, figures: Object.fromEntries(STORED[kind].map((name, i) => [name, values[i]])) };
    });
  }
}

/** Returns the metrics that the bus, a topic or a subscriber has. */
export function metricsOf(kind: SubjectKind): MetricName[] {
  return (Object.keys(METRICS) as MetricName[]).filter((name) =>
    (METRICS[name].of as readonly SubjectKind[]).includes(kind),
  );
}

interface Change {
  now: AnyFigures;
  before: AnyFigures;
  /**
   * Time from the sample `before` to the sample `now`, in intervals of the history (`ms` in STEPS): 1, or more if no
   * worker ran and samples are missing.
   */
  slots: number;
}

/**
 * Returns how the figures of the bus, a topic or a subscriber have changed from each sample of the bus to the next. The
 * key of a change is the slot of the later sample: the time of the sample, divided by the interval between samples.
 * `sampled` has the slots of all samples.
 *
 * A topic or subscriber has an entry in `entries` only when its figures had changed and it was among the busiest. At
 * any other slot, its figures count as unchanged.
 */
function changesOf(sampled: readonly number[], entries: readonly Entry[]): Map<number, Change> {
  const changes = new Map<number, Change>();
  let next = 0;
  let [now, before]: (AnyFigures | undefined)[] = [];
  for (const [index, slot] of sampled.entries()) {
    for (let entry = entries[next]; entry && entry.slot <= slot; entry = entries[++next]) now = entry.figures;
    if (now && before) changes.set(slot, { now, before, slots: slot - (sampled[index - 1] ?? slot) });
    before = now;
  }
  return changes;
}
