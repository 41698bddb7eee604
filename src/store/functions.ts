import { Command, type Redis, ReplyError } from 'ioredis';
import { clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { sharing } from '../sharing.ts';
import type { ScriptArgument, ScriptReply } from './contract.ts';
import { type FunctionLibrary, functionName, LIBRARIES } from './function_library.ts';
import type { Replicas } from './replicas.ts';

/** If Redis refuses functions, this process runs scripts by EVALSHA for this long. Then it tries functions again. */
const FALLBACK_MS = 10_000;

const MISSING = /^ERR Function not found/;
/**
 * Matches the error of a Redis that does not know FCALL, or whose ACL forbids FCALL. An ACL that forbids a command
 * inside the function causes another error.
 */
const NOT_PERMITTED = /^(?:ERR unknown command|NOPERM .*'fcall')/;
const ALREADY_THERE = /^ERR Library .* already exists/;
const GONE = /^ERR Library not found/;
/**
 * Matches errors that last until an operator acts. Temporary errors (OOM, LOADING, READONLY) begin with other words.
 */
const LASTING = /^(?:ERR|NOPERM)/;

interface FunctionsOptions {
  /** The log gets one warning if Redis refuses functions, for example because its ACL forbids FCALL or FUNCTION. */
  log?: Log | undefined;
  /** If given, a call also waits until enough replicas have what the script wrote. */
  replicas?: Replicas | undefined;
}

/** Calls functions of a library. If a Redis does not have the library, loads it and calls again. */
export class Functions {
  readonly #library: FunctionLibrary;
  readonly #key: string;
  readonly #log: Log | undefined;
  readonly #replicas: Replicas | undefined;
  #warned = false;
  #fallbackUntilMs = Number.NEGATIVE_INFINITY;
  /**
   * Loads the library. Resolves with false if Redis refuses it, and with true otherwise. Loading it again does no harm.
   */
  readonly load = sharing((redis: Redis) => this.#load(redis));

  /**
   * `key` is the only key that each FCALL declares. A cluster sends the call to the master of `key`. The function takes
   * the prefix of the partition's keys from `key`.
   */
  constructor(library: FunctionLibrary, key: string, { log, replicas }: FunctionsOptions = {}) {
    this.#library = library;
    this.#key = key;
    this.#log = log;
    this.#replicas = replicas;
  }

  /**
   * Runs a script as a Redis function (FCALL) and returns its reply. If Redis refuses functions, because its memory is
   * full or its ACL forbids them, calls `instead`, which must run the same script by EVALSHA. All calls within the next
   * FALLBACK_MS use `instead`, too. Any other error of Redis is thrown unchanged.
   */
  async call(
    redis: Redis,
    script: string,
    args: readonly ScriptArgument[],
    instead: () => Promise<ScriptReply>,
  ): Promise<ScriptReply> {
    const name = functionName(this.#library.name, script);
    for (let tries = 0; tries < 2 && clock.monotonicMs() >= this.#fallbackUntilMs; tries++) {
      try {
        const call = new Command('fcall', [name, 1, this.#key, ...args], { replyEncoding: null });
        const sent = redis.sendCommand(call) as Promise<ScriptReply>;
        return await (this.#replicas ? this.#replicas.resultOnceReplicated(redis, sent) : sent);
      } catch (error) {
        if (isReply(error, MISSING)) await this.load(redis);
        else if (isReply(error, NOT_PERMITTED)) this.#fallBack(error);
        else throw error;
      }
    }
    const reply = await instead();
    await this.#replicas?.confirm(redis);
    return reply;
  }

  /**
   * Removes the libraries of other releases, if Redis permits that. If a process of another release is still running,
   * it loads its library again.
   */
  async removeOthers(redis: Redis): Promise<void> {
    try {
      const list = ['FUNCTION', 'LIST', 'LIBRARYNAME', `${LIBRARIES}*`] as const;
      const listed = (await redis.call(...list)) as [string, string][];
      const others = listed.map(([, name]) => name).filter((name) => name !== this.#library.name);
      await Promise.all(others.map((name) => redis.call('FUNCTION', 'DELETE', name)));
    } catch (error) {
      if (!isReply(error)) throw error;
      // If the error matches GONE, another process removed the library first, so nothing is logged.
      if (!GONE.test(error.message)) this.#warn(error);
    }
  }

  async #load(redis: Redis): Promise<boolean> {
    try {
      await redis.call('FUNCTION', 'LOAD', this.#library.lua);
    } catch (error) {
      if (isReply(error, ALREADY_THERE)) return true;
      if (!isReply(error)) throw error;
      this.#fallBack(error);
      return false;
    }
    return true;
  }

  #fallBack(refusal: Error): void {
    this.#fallbackUntilMs = clock.monotonicMs() + FALLBACK_MS;
    this.#warn(refusal);
  }

  #warn({ message }: Error): void {
    if (this.#warned || !LASTING.test(message)) return;
    this.#warned = true;
    this.#log?.warn(
      // Redis adds the arguments to its message about an unknown command. They may be secret, so they are cut off.
      { reason: message.replace(/, with args.*/s, '') },
      `Redis refuses functions, without which publishing and delivering take more of its time; ${adviceOn(message)}`,
    );
  }
}

function adviceOn(refusal: string): string {
  if (refusal.startsWith('NOPERM'))
    return 'grant its user +fcall +function|load +function|list +function|delete, as the ACL in docs/operating.md does';
  if (refusal.startsWith('ERR unknown command'))
    return 'Redis 7.0 or later has them, unless they are renamed';
  return 'the reason says why';
}

function isReply(error: unknown, pattern = /^/): error is Error {
  return error instanceof ReplyError && pattern.test((error as Error).message);
}
