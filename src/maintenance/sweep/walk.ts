import { slicesOf } from '../../chunks.ts';
import { clock, sleep } from '../../clock.ts';
import type { Arguments, Reply, ScriptName } from '../../store/contracts.ts';
import { type FoundKey, foundKey } from '../../store/found_key.ts';
import { unpackJob } from '../../store/job.ts';
import { type KeyName, type Keyspace, LAYOUT } from '../../store/keys.ts';
import type { Commands, Partition } from '../../store/partition.ts';
import { isWrongType } from '../../store/wrong_type.ts';
import { type Finding, isFindingKind } from './finding.ts';

/**
 * Maximum elements (keys, members, fields) that one command reads or one script call checks. 300 take Redis about 1 ms.
 */
const ELEMENTS_PER_SLICE = 300;
/**
 * Minimum length of a rest between calls to Redis. Shorter rests are added up, because timers are too coarse for them.
 */
const MIN_REST_MS = 5;

type ScannedType = 'set' | 'zset' | 'hash';
type ScannedKey = {
  [N in KeyName]: (typeof LAYOUT)[N]['type'] extends ScannedType ? N : never;
}[KeyName];

type RepairScript = {
  [N in ScriptName]: Reply<N> extends Findings ? N : never;
}[ScriptName];
type Findings = { kind: string; name: Buffer }[];

type Scan = (redis: Commands, cursor: string) => Promise<[cursor: Buffer, elements: Buffer[]]>;

/**
 * Reads the data of one partition, some hundred elements at a time, until `signal` is aborted. Rests for as long as its
 * calls to Redis take, so that it hardly slows a busy bus.
 */
export class Walk {
  readonly partition: Partition;
  readonly #signal: AbortSignal;
  readonly #findings: Finding[];
  /** The first error of Redis for a key with a wrong type, which another program must have written. */
  unreadable: unknown;
  #restDueMs = 0;
  /** The keys with a fixed name, such as `topics`, that exist. Undefined until `keys()` has yielded all keys. */
  #present: ReadonlySet<KeyName> | undefined;

  constructor(partition: Partition, signal: AbortSignal, findings: Finding[]) {
    this.partition = partition;
    this.#signal = signal;
    this.#findings = findings;
  }

  get aborted(): boolean {
    return this.#signal.aborted;
  }

  /** Yields all keys of the partition, in any order. A key may come twice. */
  async *keys(): AsyncGenerator<FoundKey[]> {
    const { prefix } = this.partition;
    const present = new Set<KeyName>();
    const scan: Scan = (redis, cursor) =>
      redis.scanBuffer(cursor, 'MATCH', `${prefix}*`, 'COUNT', ELEMENTS_PER_SLICE);
    for await (const slice of this.#scan(scan)) {
      const keys = slice.flatMap((key) => foundKey(String(key), prefix) ?? []);
      for (const { name, parts } of keys) if (parts.length === 0) present.add(name);
      yield keys;
    }
    this.#present = present;
  }

  /**
   * Yields the members of a set or sorted set, or the fields of a hash. `name` is the key's name in LAYOUT, and `parts`
   * are its variable parts. Skips a key without variable parts, such as `topics`, if `keys()` has not found it. This
   * saves half of the commands in an idle partition.
   */
  async *members<N extends ScannedKey>(name: N, ...parts: Parameters<Keyspace[N]>): AsyncGenerator<Buffer[]> {
    const keyOf: (...parts: string[]) => string = this.partition.keys[name];
    const key = keyOf(...parts);
    if (parts.length === 0 && this.#present && !this.#present.has(name)) return;
    const { type } = LAYOUT[name];
    const scans: Record<ScannedType, Scan> = {
      set: (redis, cursor) => redis.sscanBuffer(key, cursor, 'COUNT', ELEMENTS_PER_SLICE),
      zset: (redis, cursor) => redis.zscanBuffer(key, cursor, 'COUNT', ELEMENTS_PER_SLICE),
      hash: (redis, cursor) => redis.hscanBuffer(key, cursor, 'COUNT', ELEMENTS_PER_SLICE),
    };
    // Skips the score that Redis sends after each member of a sorted set, and the value after each field of a hash.
    const step = type === 'set' ? 1 : 2;
    for await (const slice of this.#scan(scans[type])) yield slice.filter((_, index) => index % step === 0);
  }

  async addMembers<N extends ScannedKey>(into: Set<string>, name: N, ...parts: Parameters<Keyspace[N]>) {
    for await (const slice of this.members(name, ...parts)) for (const each of slice) into.add(String(each));
  }

  async *elements(key: string): AsyncGenerator<Buffer[]> {
    for (let at = 0; !this.aborted; at += ELEMENTS_PER_SLICE) {
      const slice = await this.skippable(
        this.ask((redis) => redis.lrangeBuffer(key, at, at + ELEMENTS_PER_SLICE - 1)),
      );
      if (!slice) return;
      if (slice.length > 0) yield slice;
      if (slice.length < ELEMENTS_PER_SLICE) return;
    }
  }

  async ask<T>(command: (redis: Commands, keys: Keyspace) => Promise<T>): Promise<T> {
    return this.#timed(() => this.partition.command(command));
  }

  async run<N extends ScriptName>(script: N, args: Arguments<N>): Promise<Reply<N>> {
    return this.#timed(() => this.partition.run(script, args));
  }

  async repair<N extends RepairScript>(script: N, args: Arguments<N>): Promise<void> {
    await this.runForEach<RepairScript>(script, args, (found) => this.report(found));
  }

  /**
   * Runs a script for a list (the first array in `args`), and calls `note` with the reply. If a key is unreadable, the
   * script fails for the whole list. Then it runs for each element alone, so that only the elements with an unreadable
   * key are skipped.
   */
  async runForEach<N extends ScriptName>(script: N, args: Arguments<N>, note = (_: Reply<N>) => {}) {
    const reply = await this.skippable(this.run(script, args));
    if (reply !== undefined) return note(reply);
    const all = args as Record<string, unknown>;
    const [list = '', names] = Object.entries(all).find(([, value]) => Array.isArray(value)) ?? [];
    for (const name of Array.isArray(names) && names.length > 1 ? names : [])
      await this.runForEach(script, { ...all, [list]: [name] } as Arguments<N>, note);
  }

  /** Resolves with the result of `step`. Resolves with undefined if `step` fails because a key has a wrong type. */
  async skippable<T>(step: Promise<T>): Promise<T | undefined> {
    try {
      return await step;
    } catch (error) {
      if (!isWrongType(error)) throw error;
      this.unreadable ??= error;
      return undefined;
    }
  }

  report(findings: Findings): void {
    for (const { kind, name } of findings) {
      if (!isFindingKind(kind)) throw new TypeError(`a sweep script found ${kind}, which is no finding`);
      this.#findings.push({ kind, name: unpackJob(name)?.name ?? String(name) });
    }
  }

  async *#scan(scan: Scan): AsyncGenerator<Buffer[]> {
    let cursor = '0';
    do {
      const read = await this.skippable(this.ask((redis) => scan(redis, cursor)));
      if (!read) return;
      const [next, elements] = read;
      cursor = String(next);
      if (elements.length > 0) yield elements;
    } while (cursor !== '0' && !this.aborted);
  }

  async #timed<T>(call: () => Promise<T>): Promise<T> {
    const beganMs = clock.monotonicMs();
    const reply = await call();
    this.#restDueMs += clock.monotonicMs() - beganMs;
    if (this.#restDueMs >= MIN_REST_MS) {
      await sleep(this.#restDueMs, this.#signal);
      this.#restDueMs = 0;
    }
    return reply;
  }
}

/** Divides elements into slices that are small enough for one command or script call. */
export const slices = <T>(all: Iterable<T>): Generator<T[]> => slicesOf([...all], ELEMENTS_PER_SLICE);
