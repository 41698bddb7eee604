import { AsyncLocalStorage } from 'node:async_hooks';
import { StorageUnavailable } from '../../src/errors.ts';
import type { Arguments, Reply, ScriptName } from '../../src/store/contracts.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Partitions } from '../../src/store/partitions.ts';

/**
 * What becomes of a call to Redis:
 * - `ok`: it is answered;
 * - `away`: it does not arrive;
 * - `lost`: it is done, and the reply is lost;
 * - `late`: the caller gives up, and Redis does the call later.
 */
export type Fate = 'ok' | 'away' | 'lost' | 'late';

/** Something that the bus does, with several calls to Redis. */
export interface Task {
  isOver: boolean;
  /** The number of calls that the task has given up, and that Redis may still do. */
  late: number;
}

/** True if Redis does no more calls of a task. */
export function isOver({ task }: { task: Task }): boolean {
  return task.isOver && task.late === 0;
}

/** A call to Redis that waits to be let through. */
interface Waiting {
  /** Undefined if the call was given up. */
  task: Task | undefined;
  partition: Partition;
  /** The name of the script, or `command`. */
  what: string;
  /** True if the call resolves only when a replica has what Redis has written. */
  isConfirmed: boolean;
  send: () => Promise<unknown>;
  resolve: (result: unknown) => void;
  reject: (error: Error) => void;
}

/** Called with what a script has replied, in the order in which Redis runs the scripts. */
type Observer = <N extends ScriptName>(
  partition: Partition,
  name: N,
  args: Arguments<N>,
  reply: Reply<N>,
) => void;

interface GateParts {
  observe: Observer;
  /** Called before a call resolves that waits for replicas. */
  confirm: (partition: Partition) => Promise<void>;
}

/** Maximum entries of an outbox that are read at a time. It is low, so that emptying an outbox takes several steps. */
const MAX_ENTRIES = 2;

/**
 * Holds each call to Redis until a test lets it through. So the test decides in which order Redis does the calls of
 * several tasks, and which of them fail.
 */
export class Gate {
  readonly #parts: GateParts;
  readonly #tasks = new AsyncLocalStorage<Task>();
  #waiting: Waiting[] = [];

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  /** The calls that wait, in the order in which they came. */
  get waiting(): readonly Waiting[] {
    return this.#waiting;
  }

  /** Returns these partitions; calls to them are held. Scripts wait for replicas if `isConfirmed`. */
  behind({ all }: Partitions, { isConfirmed = false } = {}): Partitions {
    const held = all.map((each) => this.#behind(each, isConfirmed));
    return new Partitions(...(held as [Partition, ...Partition[]]));
  }

  #behind(partition: Partition, isConfirmed: boolean): Partition {
    const run: Partition['run'] = (name, args) =>
      this.#hold({ partition, what: name, isConfirmed }, async () => {
        const reply = await partition.run(name, withFewEntries(args));
        this.#parts.observe(partition, name, args, reply);
        return reply;
      });
    const command: Partition['command'] = (send) =>
      this.#hold({ partition, what: 'command', isConfirmed: false }, () => partition.command(send));
    const confirmedCommand: Partition['command'] = (send) =>
      this.#hold({ partition, what: 'command', isConfirmed }, () => partition.command(send));
    const held = { run, command, confirmedCommand };
    return Object.create(partition, Object.getOwnPropertyDescriptors(held));
  }

  #hold<T>(about: Pick<Waiting, 'partition' | 'what' | 'isConfirmed'>, send: () => Promise<T>): Promise<T> {
    const task = this.#tasks.getStore();
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ ...about, task, send, resolve: resolve as Waiting['resolve'], reject });
    });
  }

  /** Starts a task. Resolves when its first call is held. */
  async start(run: () => Promise<void>): Promise<Task> {
    const task: Task = { isOver: false, late: 0 };
    const end = () => {
      task.isOver = true;
    };
    void this.#tasks.run(task, run).then(end);
    await quiet();
    return task;
  }

  /** Lets a call that waits meet its fate. Resolves when the calls that follow from it are held. */
  async let(call: Waiting, fate: Fate): Promise<void> {
    const { task, partition, isConfirmed, send, resolve, reject } = call;
    // A call that was given up stays so.
    if (fate === 'late' && !task) return;
    const fail = () => reject(new StorageUnavailable(new Error(fate)));
    this.#waiting = this.#waiting.filter((each) => each !== call);
    if (fate === 'late' && task) this.#giveUp(call, task);
    const confirm = async (result: unknown) => {
      if (isConfirmed && task) await this.#parts.confirm(partition);
      resolve(result);
    };
    if (fate === 'ok') await send().then(confirm, reject);
    else if (fate === 'lost') await send().then(fail, fail);
    else fail();
    await quiet();
  }

  /** Redis will never do the calls to this partition that were given up. */
  forget(partition: Partition): void {
    const isGone = (each: Waiting) => !each.task && each.partition === partition;
    for (const { resolve } of this.#waiting.filter(isGone)) resolve(undefined);
    this.#waiting = this.#waiting.filter((each) => !isGone(each));
  }

  /** Redis may do the call at any later time, and nobody waits for it. */
  #giveUp(call: Waiting, task: Task): void {
    task.late++;
    const done = () => {
      task.late--;
    };
    this.#waiting.push({ ...call, task: undefined, resolve: done, reject: done });
  }
}

function withFewEntries<N extends ScriptName>(args: Arguments<N>): Arguments<N> {
  const given: object = Object(args);
  return 'maxEntries' in given ? ({ ...given, maxEntries: MAX_ENTRIES } as Arguments<N>) : args;
}

/** Resolves when all code has run that waited for promises which are resolved by now. */
async function quiet(): Promise<void> {
  // A Batcher waits for up to two turns of the event loop.
  for (let turn = 0; turn < 4; turn++) await new Promise(setImmediate);
}
