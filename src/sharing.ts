/**
 * Returns a function that calls `work`, but never twice at a time. A call while `work` is running gets the result of
 * that run, and its own arguments are ignored. This result may miss a change made just before the call. If that
 * matters, use the class SharedReading instead.
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
