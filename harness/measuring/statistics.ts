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

/** A value that was measured. The true one is within `error` of it, to either side, with a confidence of 95 %. */
export interface Estimate {
  value: number;
  error: number;
}

/** Standard deviations to each side that hold 95 % of a normal distribution. */
const SIDE = 1.96;

/** Returns the median. Its error follows from the ranks of the values, however these are distributed. */
export function medianEstimate(values: readonly number[]): Estimate {
  const sorted = values.toSorted((one, other) => one - other);
  const [middle, ranks] = [sorted.length / 2, (SIDE * Math.sqrt(sorted.length)) / 2];
  const at = (rank: number) => sorted[Math.max(0, Math.min(sorted.length - 1, rank))] ?? Number.NaN;
  const error = (at(Math.ceil(middle + ranks)) - at(Math.floor(middle - ranks))) / 2;
  return { value: spread(sorted).median, error };
}
