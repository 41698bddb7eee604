/**
 * Returns a function that calls `work`, but not while `work` is running. A caller that comes then gets the result of
 * the running call, and the caller's own arguments are ignored. That result may miss a change made just before the
 * caller came. SharedReading never misses such a change.
 */
export function sharing<Args extends unknown[], T>(
  work: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let underWay: Promise<T> | undefined;
  return (...args) => {
    underWay ??= work(...args).finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
}
