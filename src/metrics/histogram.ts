/** Upper bounds of the buckets for the time of a delivery, in seconds. A bucket `+Inf` follows the last one. */
export const DELIVERY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/**
 * Upper bounds in seconds, from far below a batch's default deadline (0.5 s) to the longest honoured
 * `Retry-After` (a day).
 */
export const LATENCY_SECONDS = [
  0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400,
];
/** Upper bounds of lateness in seconds. They range from an idle bus (a few ms) to a bus that was down for a day. */
export const LATENESS_SECONDS = [
  0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400,
];

export function bucketOf(bounds: readonly number[], ms: number): string {
  return String(bounds.find((seconds) => ms <= seconds * 1000) ?? '+Inf');
}

/**
 * Returns Prometheus's cumulative buckets. In `counted`, a value is only in the first bucket whose bound it
 * does not exceed. A count with a bound of another release, which is not in `bounds`, is added to the buckets
 * with larger bounds.
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
