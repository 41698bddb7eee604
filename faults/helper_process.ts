import { fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { type Calls, Helper } from '../bench/helper.ts';
import type { Owner } from '../test/support/running_bus.ts';

/** A process of `faults/processes/`, for what would keep the lab's own process from looking on. */
export class HelperProcess<C extends Calls> {
  readonly #helper: Helper<C>;
  /** Rejects when it ends before it is told to. */
  readonly #lost: Promise<never>;

  /** It ends with its owner. `last`: it runs only when nobody else wants to. */
  constructor(owner: Owner, file: string, { last = false } = {}) {
    const child = fork(join(import.meta.dirname, 'processes', file), {
      serialization: 'advanced',
      detached: true,
    });
    if (last && child.pid) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    this.#helper = new Helper(child);
    const gone = once(child, 'exit');
    this.#lost = gone.then(([code, signal]) => {
      throw new Error(`${file} ended (${signal ?? code})`);
    });
    this.#lost.catch(() => {}); // who calls it hears of it
    owner.after(async () => {
      child.kill('SIGTERM');
      await gone;
    });
  }

  /** As Helper does; rejects too when the process ends. */
  call<K extends keyof C & string>(call: K, ...args: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>> {
    return Promise.race([this.#helper.call(call, ...args), this.#lost]);
  }
}
