import { createHash } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { type Meddle, TcpProxy } from '../harness/meddling_proxy.ts';
import { fieldsInOrder } from '../src/store/contract.ts';
import { contracts } from '../src/store/contracts.ts';
import { scriptOfFunction } from '../src/store/function_library.ts';
import { readScripts, standalone } from '../src/store/script_source.ts';
import { firstWords, RespReader } from './resp.ts';

/** A call of a process to Redis. */
interface Call {
  /** The command's name in lower case. */
  command: string;
  /**
   * The name of the script that the call runs; undefined for a plain command. (Scripts and plain commands can have the
   * same name, such as `publish`.)
   */
  script: string | undefined;
  /** The first arguments of the script. */
  args: string[];
}

/** A request that has not been passed on yet, or the reply to one that Redis has served. */
export type Message = { at: 'request'; call: Call } | { at: 'reply'; call: Call; reply: Buffer };

/**
 * The position, in the arguments of `acquire`, of the number of finished jobs. The finished jobs are the first list.
 * Only single values come before it.
 */
const FINISHED_AT = fieldsInOrder(contracts.acquire.arguments).findIndex(([name]) => name === 'finished');
/** Number of words that are read of a call: command, script, number of keys, the only key, and arguments. */
const MAX_WORDS = 4 + FINISHED_AT + 1;

/** Returns true if the call, an `acquire`, acknowledges a delivery. */
export function acknowledgesOnMain({ script, args }: Call): boolean {
  return script === 'acquire' && args[0] === 'main' && Number(args[FINISHED_AT]) > 0;
}

/** A proxy between a process and its Redis, which understands each call and can meddle with it. */
export class RedisProxy extends TcpProxy<Message> {
  /** `socketPath`: the unix socket of the Redis. */
  static start(socketPath: string): Promise<RedisProxy> {
    return new RedisProxy(() => connect(socketPath)).listen('redis');
  }

  protected override link(client: Socket, redis: Socket): void {
    new Link(client, redis, (message) => this.meddle(message));
  }
}

/** One connection of the process, paired with one to Redis. */
class Link {
  readonly #client: Socket;
  readonly #redis: Socket;
  readonly #meddle: Meddle<Message>;
  readonly #requests = new RespReader();
  readonly #replies = new RespReader();
  /** Calls that Redis has not answered yet. */
  readonly #owed: Call[] = [];
  #asking: Promise<void> = Promise.resolve();
  #answering: Promise<void> = Promise.resolve();
  /** True if the connection has subscribed. What it receives from then on answers no call. */
  #listens = false;
  #muted = false;

  constructor(client: Socket, redis: Socket, meddle: Meddle<Message>) {
    this.#client = client;
    this.#redis = redis;
    this.#meddle = meddle;
    for (const socket of [client, redis]) socket.on('close', () => this.#close());
    client.on('data', (bytes) => {
      for (const each of this.#requests.read(bytes))
        this.#asking = this.#asking.then(() => this.#request(each));
    });
    redis.on('data', (bytes) => {
      const messages = this.#listens ? [bytes] : this.#replies.read(bytes);
      for (const each of messages) this.#answering = this.#answering.then(() => this.#reply(each));
    });
  }

  #close(): void {
    this.#client.destroy();
    this.#redis.destroy();
  }

  async #request(bytes: Buffer): Promise<void> {
    const call = callOf(bytes);
    // With several partitions, the bus listens to channels by SSUBSCRIBE.
    if (['subscribe', 'ssubscribe'].includes(call.command)) this.#listens = true;
    if (!(await this.#passes({ at: 'request', call }))) return;
    if (!this.#listens) this.#owed.push(call);
    this.#redis.write(bytes);
  }

  async #reply(reply: Buffer): Promise<void> {
    const call = this.#listens ? undefined : this.#owed.shift();
    if (!call || (await this.#passes({ at: 'reply', call, reply }))) {
      if (!this.#muted) this.#client.write(reply);
    }
  }

  async #passes(message: Message): Promise<boolean> {
    const meddling = this.#muted ? undefined : this.#meddle(message);
    await meddling?.first?.();
    if (meddling?.end === 'mute') this.#muted = true;
    if (meddling?.end === 'cut') this.#close();
    return !this.#muted && !this.#client.destroyed;
  }
}

const SCRIPT_NAMES = new Map(readScripts().map((script) => [sha1Of(standalone(script)), script.name]));

function callOf(request: Buffer): Call {
  const [word = '', source = '', keys = '0', ...rest] = firstWords(request, MAX_WORDS);
  const command = word.toLowerCase();
  if (command === 'fcall')
    return { command, script: scriptOfFunction(source), args: rest.slice(Number(keys)) };
  if (command !== 'evalsha' && command !== 'eval') return { command, script: undefined, args: [] };
  const sha1 = command === 'eval' ? sha1Of(Buffer.from(source, 'latin1')) : source;
  return { command, script: SCRIPT_NAMES.get(sha1), args: rest.slice(Number(keys)) };
}

function sha1Of(source: string | Buffer): string {
  return createHash('sha1').update(source).digest('hex');
}
