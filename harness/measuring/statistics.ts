/** Returns the value below which `share` of the values lie; NaN if there are none. Sorts `values`. */
export function percentile(values: Float64Array, share: number): number {
  values.sort();
  return values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export function spread(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length / 2;
  const median = ((sorted[Math.floor(middle)] ?? 0) + (sorted[Math.ceil(middle) - 1] ?? 0)) / 2;
  return { median, min: sorted[0] ?? 0, max: sorted.at(-1) ?? 0 };
}
