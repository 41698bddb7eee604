import { type Redis, ReplyError } from 'ioredis';
import { clock } from '../clock.ts';
import { type FunctionLibrary, LIBRARIES } from './function_library.ts';

/** For how long scripts do the work of functions that Redis did not take. */
const WITHOUT_MS = 10_000;

/** Redis has no such function (any more), no functions at all, or none for us. (What is not allowed within one is no such case.) */
const MISSING = /^(?:ERR Function not found|ERR unknown command|NOPERM .*'fcall')/;
const ALREADY_THERE = /^ERR Library .* already exists/;

/** A library of functions in Redis, which is loaded whenever it turns out to be missing. */
export class Functions {
  readonly #redis: Redis;
  readonly #library: FunctionLibrary;
  #loading: Promise<boolean> | undefined;
  #withoutUntilMs = Number.NEGATIVE_INFINITY;

  constructor(redis: Redis, library: FunctionLibrary) {
    this.#redis = redis;
    this.#library = library;
  }

  /** If it has a function that is made of this script. */
  has(script: string): boolean {
    return this.#library.functions.has(script);
  }

  /**
   * Calls the function of a script. Where Redis has none and takes none (it has no memory left, say, or does not let us), calls
   * `instead`, and for a while does so at once. Fails as Redis does.
   */
  async call<T>(
    script: string,
    args: readonly (string | number | Buffer)[],
    instead: () => Promise<T>,
  ): Promise<T> {
    const name = this.#library.functions.get(script) as string;
    for (let tries = 0; tries < 2 && clock.monotonicMs() >= this.#withoutUntilMs; tries++) {
      try {
        return (await this.#redis.callBuffer('FCALL', name, ...args)) as T;
      } catch (error) {
        if (!isReply(error, MISSING)) throw error;
      }
      await this.load();
    }
    return instead();
  }

  /** Has Redis know the functions. It is no error if it does not take them; false then. */
  load(): Promise<boolean> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  /** Removes the libraries of other releases, if Redis lets us. One that still runs loads its own again. */
  async removeOthers(): Promise<void> {
    try {
      const list = ['FUNCTION', 'LIST', 'LIBRARYNAME', `${LIBRARIES}*`] as const;
      const listed = (await this.#redis.call(...list)) as [string, string][];
      const others = listed.map(([, name]) => name).filter((name) => name !== this.#library.name);
      await Promise.all(others.map((name) => this.#redis.call('FUNCTION', 'DELETE', name)));
    } catch (error) {
      // Another process may have been faster.
      if (!isReply(error)) throw error;
    }
  }

  async #load(): Promise<boolean> {
    try {
      await this.#redis.call('FUNCTION', 'LOAD', this.#library.lua);
    } catch (error) {
      if (isReply(error, ALREADY_THERE)) return true;
      if (!isReply(error)) throw error;
      this.#withoutUntilMs = clock.monotonicMs() + WITHOUT_MS;
      return false;
    }
    return true;
  }
}

function isReply(error: unknown, pattern = /^/): boolean {
  return error instanceof ReplyError && pattern.test((error as Error).message);
}
