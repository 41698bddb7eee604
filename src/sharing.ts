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
 * Returns a function that calls `work`, but never twice at a time. All calls while `work` is running share the next
 * run. They cannot share the present one, because it may have missed a change made just before the call.
 */
export function sharingNext<T>(work: () => Promise<T>): () => Promise<T> {
  // Resolves when the latest run has ended, with no value: the result may be large, and would stay in memory.
  let ended = Promise.resolve();
  let next: Promise<T> | undefined;
  return () => {
    next ??= ended.then(() => {
      next = undefined;
      const run = work();
      ended = run.then(nothing, nothing);
      return run;
    });
    return next;
  };
}

function nothing(): void {}
