/**
 * Counts the idle workers of each delivery thread, in memory that all threads share. An announced job wakes one thread:
 * waking all of them, each to ask Redis for itself, took a third more CPU of the worker process at 100 events/s.
 */
export class IdleWorkers {
  readonly counts: Int32Array;

  /** `counts`: those of another thread, to share them. Threads are numbered from 0. */
  constructor(counts: Int32Array) {
    this.counts = counts;
  }

  static ofThreads(threads: number): IdleWorkers {
    return new IdleWorkers(new Int32Array(new SharedArrayBuffer(threads * Int32Array.BYTES_PER_ELEMENT)));
  }

  set(thread: number, idle: number): void {
    Atomics.store(this.counts, thread, idle);
  }

  /** The thread with the most idle workers; undefined while all workers are busy. */
  mostIdleThread(): number | undefined {
    let found: number | undefined;
    let max = 0;
    for (let thread = 0; thread < this.counts.length; thread++) {
      const idle = Atomics.load(this.counts, thread);
      if (idle > max) [found, max] = [thread, idle];
    }
    return found;
  }
}
