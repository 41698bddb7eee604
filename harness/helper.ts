import type { ChildProcess } from 'node:child_process';

/** What a helper process can be asked to do. Arguments and answers are copied. */
// biome-ignore lint/suspicious/noExplicitAny: a call may take whatever it likes
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

/** The measuring process's end of a helper process. */
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

  /** Resolves with what the call answers there; rejects with the message of what it throws. */
  call<K extends keyof C & string>(call: K, ...args: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>> {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, call, args } satisfies Question);
    });
  }
}

/** The helper process's end: serves calls until the measuring process has gone. */
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
