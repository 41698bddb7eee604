import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
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

/** A helper process that ends with its owner: a test, a fault scenario, or a part of the benchmark. */
export class Helper<C extends Calls> {
  readonly pid: number;
  /** Rejects if the process ends before its owner. */
  readonly lost: Promise<never>;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;

  /** With `last`, the process has the lowest priority, so it takes hardly any CPU from other processes. */
  constructor(owner: Owner, file: URL, { last = false } = {}) {
    const child = fork(file, { serialization: 'advanced', detached: true });
    if (last && child.pid) giveLowestPriority(child.pid);
    this.pid = child.pid ?? 0;
    this.#child = child;
    child.on('message', (answer: Answer) => {
      const waiting = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if ('error' in answer) waiting?.reject(new Error(answer.error));
      else waiting?.resolve(answer.result as never);
    });
    const gone = once(child, 'exit');
    let mayEnd = false;
    this.lost = new Promise((_, reject) => {
      void gone.then(([code, signal]) => {
        if (!mayEnd) reject(new Error(`${file.pathname} ended (${signal ?? code})`));
      });
    });
    this.lost.catch(() => {}); // the next call reports it
    owner.after(async () => {
      mayEnd = true; // calls under way, of work that has failed, stay without an answer
      child.kill('SIGTERM');
      await gone;
    });
  }

  /** Resolves with the helper's answer; rejects with the message of the error that it throws, or if it ends. */
  call<K extends keyof C & string>(call: K, ...args: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>> {
    const answer = new Promise<never>((resolve, reject) => {
      const id = this.#next++;
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, call, args } satisfies Question, (error) => error && reject(error));
    });
    return Promise.race([answer, this.lost]);
  }
}

/**
 * Gives a process that leads a session the lowest priority. If Linux shares the CPU equally among sessions
 * (`sched_autogroup_enabled`), the priority of a process counts only within its session, so the session gets the lowest
 * one too.
 */
function giveLowestPriority(pid: number): void {
  setPriority(pid, constants.priority.PRIORITY_LOW);
  const sessionPriority = `/proc/${pid}/autogroup`;
  if (existsSync(sessionPriority)) writeFileSync(sessionPriority, String(constants.priority.PRIORITY_LOW));
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
