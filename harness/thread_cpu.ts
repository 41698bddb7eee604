/**
 * Starts to measure the CPU time of this thread. Returns a function that returns the time since then in ms. Unlike the
 * time of a clock, it does not grow while other processes have the CPU.
 */
export function threadCpuSince(): () => number {
  const before = process.threadCpuUsage();
  return () => {
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1000;
  };
}
