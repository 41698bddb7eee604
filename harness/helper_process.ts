import { fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { type Calls, Helper } from './helper.ts';
import type { Owner } from './running_bus.ts';

/** A process of its own, for what would keep the lab's own process from looking on. */
export class HelperProcess<C extends Calls> {
  readonly #helper: Helper<C>;
  /** Rejects when it ends before it is told to. */
  readonly #lost: Promise<never>;

  /** It ends with its owner. `last`: it runs only when nobody else wants to. */
  constructor(owner: Owner, file: URL, { last = false } = {}) {
    const child = fork(file, {
      serialization: 'advanced',
      detached: true,
    });
    if (last && child.pid) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    this.#helper = new Helper(child);
    const gone = once(child, 'exit');
    this.#lost = gone.then(([code, signal]) => {
      throw new Error(`${file.pathname} ended (${signal ?? code})`);
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
