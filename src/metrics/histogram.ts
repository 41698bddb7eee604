/** Upper bounds of the buckets, in seconds. A last bucket, `+Inf`, follows. */
export const DELIVERY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** From far below a batch's default deadline (0.5 s) to the longest `Retry-After` that is honoured (a day). */
export const LATENCY_SECONDS = [
  0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400,
];

/** The tag `le` of the bucket that counts this duration. */
export function bucketOf(bounds: readonly number[], ms: number): string {
  return String(bounds.find((seconds) => ms <= seconds * 1000) ?? '+Inf');
}

/**
 * Turns buckets that count only their own values into Prometheus's cumulative ones; the last is `+Inf` and counts all. Counts
 * under the bounds of another release go into the buckets of `bounds` that include them.
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
