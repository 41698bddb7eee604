import type { Tags } from './counter_hash.ts';

/** Upper bounds of the buckets, in seconds; above the last there is one more, `+Inf`. */
export const DELIVERY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** From the deadline of a batch (0.5 s unless set) to the patience that a subscriber that is down asks for. */
export const LATENCY_SECONDS = [
  0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400,
];

/** Tags for each bucket of a histogram, `le` among them. Gives those of the bucket that counts so many ms, always the same. */
export function bucketTags(bounds: readonly number[], tags: Tags = {}): (ms: number) => Tags {
  const buckets = [...bounds.map(String), '+Inf'].map((le) => ({ le, ...tags }));
  return (ms) => {
    const index = bounds.findIndex((seconds) => ms <= seconds * 1000);
    return buckets.at(index) as Tags;
  };
}

/**
 * From what each bucket counted by itself to Prometheus's buckets, each of which counts the lower ones too; the last is
 * `+Inf` and counts all. What was counted under bounds of another release goes where it belongs.
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
