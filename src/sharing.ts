/**
 * Returns a function that calls `work`, but never twice at a time. A call while `work` is running gets the result of
 * that run, and its own arguments are ignored. This result may miss a change made just before the call. If that
 * matters, use `sharingNext` instead.
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

/**
 * Returns a function that calls `work`, but never twice at a time. All calls while `work` is running share the next run.
 * They cannot share the present one, because it may have missed a change made just before the call.
 */
export function sharingNext<T>(work: () => Promise<T>): () => Promise<T> {
  let latest: Promise<T> | undefined;
  let next: Promise<T> | undefined;
  return () => {
    next ??= Promise.allSettled([latest]).then(() => {
      next = undefined;
      latest = work();
      return latest;
    });
    return next;
  };
}
