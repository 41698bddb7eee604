import { type Redis, ReplyError } from 'ioredis';
import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { FunctionCall } from './function_call.ts';
import { type FunctionLibrary, LIBRARIES } from './function_library.ts';
import type { ScriptArgument, ScriptReply } from './script_values.ts';

/** For how long scripts do the work of functions that Redis did not take. */
const WITHOUT_MS = 10_000;

const MISSING = /^ERR Function not found/;
/** Redis has no functions at all, or none for us. (What is not allowed within one is no such case.) */
const NOT_FOR_US = /^(?:ERR unknown command|NOPERM .*'fcall')/;
const ALREADY_THERE = /^ERR Library .* already exists/;
const GONE = /^ERR Library not found/;
/** What passes by itself (OOM, LOADING, READONLY) begins with a word of its own. */
const TO_BE_MENDED = /^(?:ERR|NOPERM)/;

/** A library of functions in Redis, which is loaded whenever it turns out to be missing. */
export class Functions {
  readonly #redis: Redis;
  readonly #library: FunctionLibrary;
  readonly #key: string;
  readonly #log: Log | undefined;
  #told = false;
  #loading: Promise<boolean> | undefined;
  #withoutUntilMs = Number.NEGATIVE_INFINITY;

  /** `key`: the one that every call names. `log` is told, once, if Redis refuses what somebody could permit. */
  constructor(redis: Redis, library: FunctionLibrary, key: string, log?: Log) {
    this.#redis = redis;
    this.#library = library;
    this.#key = key;
    this.#log = log;
  }

  /** If it has a function that is made of this script. */
  has(script: string): boolean {
    return this.#library.functions.has(script);
  }

  /**
   * Calls the function of a script. Where Redis has none and takes none (it has no memory left, say, or does not let us), calls
   * `instead`, and for a while does so at once. Fails as Redis does.
   */
  async call(
    script: string,
    args: readonly ScriptArgument[],
    instead: () => Promise<ScriptReply>,
  ): Promise<ScriptReply> {
    const name = this.#library.functions.get(script) as string;
    for (let tries = 0; tries < 2 && clock.monotonicMs() >= this.#withoutUntilMs; tries++) {
      try {
        const call = new FunctionCall(name, this.#key, args);
        return (await this.#redis.sendCommand(call)) as ScriptReply;
      } catch (error) {
        if (isReply(error, MISSING)) await this.load();
        else if (isReply(error, NOT_FOR_US)) this.#doWithout(error);
        else throw error;
      }
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
      if (!isReply(error)) throw error;
      // Gone: another process was faster.
      if (!GONE.test(error.message)) this.#tell(error);
    }
  }

  async #load(): Promise<boolean> {
    try {
      await this.#redis.call('FUNCTION', 'LOAD', this.#library.lua);
    } catch (error) {
      if (isReply(error, ALREADY_THERE)) return true;
      if (!isReply(error)) throw error;
      this.#doWithout(error);
      return false;
    }
    return true;
  }

  #doWithout(refusal: Error): void {
    this.#withoutUntilMs = clock.monotonicMs() + WITHOUT_MS;
    this.#tell(refusal);
  }

  #tell({ message }: Error): void {
    if (this.#told || !TO_BE_MENDED.test(message)) return;
    this.#told = true;
    this.#log?.warn(
      // Redis quotes the arguments of a command that it does not know.
      { reason: message.replace(/, with args.*/s, '') },
      'Redis refuses functions, without which publishing and delivering take more of its time; ' +
        'grant its user +fcall +function|load +function|list +function|delete, as the ACL in docs/operating.md does',
    );
  }
}

function isReply(error: unknown, pattern = /^/): error is Error {
  return error instanceof ReplyError && pattern.test((error as Error).message);
}
