/** Upper bounds of the buckets for the time of a delivery, in seconds. A bucket `+Inf` follows the last one. */
const DELIVERY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/**
 * Upper bounds of the buckets for the latency of a batch, in seconds. The lowest are far below the default time that a
 * batch waits for more events (0.5 s). The highest is the longest `Retry-After` that the bus respects (a day).
 */
const LATENCY_SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400];
/**
 * Upper bounds of the buckets for lateness, in seconds. Lateness is the time from when an event is due until it is
 * published. It is a few ms on an idle bus, and may be a day after an outage.
 */
const LATENESS_SECONDS = [
  0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400,
];

/**
 * The histograms. Each is made of two counters, both with the tags `labels`. `<name>.bucket` counts each value once, in
 * the smallest bucket that it fits into; the tag `le` is the upper bound of the bucket in seconds. `<name>.sum` adds up
 * the values, in ms.
 */
export const HISTOGRAMS = {
  'delivery.duration': {
    name: 'routemaster_delivery_duration_seconds',
    help: 'Time taken by a delivery.',
    bounds: DELIVERY_SECONDS,
    labels: ['status'],
  },
  'latency.end_to_end': {
    name: 'routemaster_latency_seconds',
    help: 'Time from the creation of a batch until its subscriber took it.',
    bounds: LATENCY_SECONDS,
    labels: [],
  },
  'delayed.lateness': {
    name: 'routemaster_delayed_lateness_seconds',
    help: 'Time from when a delayed event was due until it was published.',
    bounds: LATENESS_SECONDS,
    labels: [],
  },
  'triggers.lateness': {
    name: 'routemaster_triggers_lateness_seconds',
    help: 'Time from when a trigger was due until it fired.',
    bounds: LATENESS_SECONDS,
    labels: [],
  },
} as const;
export type HistogramName = keyof typeof HISTOGRAMS;

export function bucketOf(bounds: readonly number[], ms: number): string {
  return String(bounds.find((seconds) => ms <= seconds * 1000) ?? '+Inf');
}

/**
 * Returns cumulative counts, as Prometheus expects: each bucket counts all values up to its bound. `counted` has, for
 * each bound, the number of values that fit into no smaller bucket. If another release has counted with a bound that is
 * not in `bounds`, its values count in the next larger one.
 */
export function cumulate(
  counted: ReadonlyMap<string, number>,
  bounds: readonly number[],
): [le: string, count: number][] {
  const upTo = (bound: number) => {
    let sum = 0;
    for (const [le, count] of counted) if (Number(le.replace('+Inf', 'Infinity')) <= bound) sum += count;
    return sum;
  };
  return [
    ...bounds.map((bound): [string, number] => [String(bound), upTo(bound)]),
    ['+Inf', upTo(Number.POSITIVE_INFINITY)],
  ];
}
