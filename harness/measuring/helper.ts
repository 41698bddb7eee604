import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import type { Owner } from '../processes/running_bus.ts';

/** The calls that a helper process serves. Arguments and answers are copied between the processes. */
// biome-ignore lint/suspicious/noExplicitAny: each call has arguments of its own
export type Calls = Record<string, (...args: any[]) => unknown>;

interface Question {
  id: number;
  call: string;
  args: unknown[];
}

type Answer = { id: number; result: unknown } | { id: number; error: string };

interface Waiting {
  resolve: (result: never) => void;
  reject: (error: Error) => void;
}

/** The caller's end of a helper process. */
export class Helper<C extends Calls> {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;

  constructor(child: ChildProcess) {
    this.pid = child.pid ?? 0;
    this.#child = child;
    child.on('message', (answer: Answer) => {
      const waiting = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if ('error' in answer) waiting?.reject(new Error(answer.error));
      else waiting?.resolve(answer.result as never);
    });
  }

  /** Resolves with the helper's answer; rejects with the message of the error that it throws. */
  call<K extends keyof C & string>(call: K, ...args: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>> {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, call, args } satisfies Question);
    });
  }
}

/** A helper process that ends with its owner, which is a test or a fault scenario. */
export class HelperProcess<C extends Calls> {
  readonly #helper: Helper<C>;
  /** Rejects when the process has ended. */
  readonly #lost: Promise<never>;

  /** With `last`, the process has the lowest priority, so it takes hardly any CPU from other processes. */
  constructor(owner: Owner, file: URL, { last = false } = {}) {
    const child = fork(file, { serialization: 'advanced', detached: true });
    if (last && child.pid) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    this.#helper = new Helper(child);
    const gone = once(child, 'exit');
    this.#lost = gone.then(([code, signal]) => {
      throw new Error(`${file.pathname} ended (${signal ?? code})`);
    });
    this.#lost.catch(() => {}); // the next call reports it
    owner.after(async () => {
      child.kill('SIGTERM');
      await gone;
    });
  }

  /** Calls the helper as `Helper.call` does, but also rejects when the process ends. */
  call<K extends keyof C & string>(call: K, ...args: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>> {
    return Promise.race([this.#helper.call(call, ...args), this.#lost]);
  }
}

/** Serves calls in a helper process until the calling process has gone. */
export function serveCalls(calls: Calls): void {
  const answer = async ({ id, call, args }: Question): Promise<Answer> => {
    try {
      return { id, result: await calls[call]?.(...args) };
    } catch (error) {
      return { id, error: error instanceof Error ? error.message : String(error) };
    }
  };
  process.on('message', (question: Question) => {
    void answer(question).then((reply) => process.send?.(reply));
  });
  process.on('disconnect', () => process.exit());
  process.on('SIGTERM', () => process.exit());
}
