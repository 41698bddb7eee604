/**
 * Returns a function that calls `work` and shares the call: a caller that comes while it is under way gets its result
 * too, and the arguments of that caller are ignored. So the result may miss a change made just before the second call.
 * Where that matters, use SharedReading.
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
