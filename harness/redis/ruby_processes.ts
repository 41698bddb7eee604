import { randomBytes } from 'node:crypto';
import { encode } from '@msgpack/msgpack';
import { packJob } from '../../src/store/job.ts';
import type { Commands } from '../../src/store/partition.ts';

/** The number of items before the events in a batch's list. */
const HEADER = 3;

/** Runs commands in one step, as a script of the Ruby Routemaster does. */
type Eval = (lua: string, keys: (string | Buffer)[], args: (string | number | Buffer)[]) => Promise<unknown>;

const evalOn =
  (redis: Commands): Eval =>
  (lua, keys, args) =>
    redis.eval(lua, keys.length, ...keys, ...args);

/**
 * Appends an event to the current batch that was read before, if that is still current; otherwise to a new
 * batch.
 */
const INGEST = `
local bid, list = ARGV[1], KEYS[2]
if #bid == 0 or redis.call('SISMEMBER', KEYS[1], bid) == 0 then
  bid, list = ARGV[2], KEYS[3]
  redis.call('SADD', KEYS[1], bid)
  redis.call('ZADD', KEYS[4], ARGV[6], bid)
  redis.call('RPUSH', list, ARGV[4], ARGV[6], 0)
  redis.call('HINCRBY', KEYS[5], ARGV[4], 1)
end
redis.call('RPUSH', list, ARGV[3])
redis.call('HINCRBY', KEYS[6], ARGV[4], 1)
local length = redis.call('LLEN', list) - ${HEADER}
if length >= tonumber(ARGV[5]) then redis.call('SREM', KEYS[1], bid) end
return { bid, length }`;

const PUSH = `
if redis.call('SADD', KEYS[2], ARGV[1]) > 0 then redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1]) end`;

const PROMOTE = `
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  redis.call('LPUSH', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[1], ARGV[1])
end`;

const DELETE = `
local count = redis.call('LLEN', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('SREM', KEYS[3], ARGV[1])
if count >= ${HEADER} then
  redis.call('HINCRBY', KEYS[4], ARGV[2], -1)
  redis.call('HINCRBY', KEYS[5], ARGV[2], ${HEADER} - count)
end`;

const ACK = `
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('SREM', KEYS[2], ARGV[1])`;

const SCHEDULE = `
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 100)
if #due > 0 then
  redis.call('LPUSH', KEYS[2], unpack(due))
  redis.call('ZREM', KEYS[1], unpack(due))
end`;

const uid = () => randomBytes(15).toString('base64url');

/** Returns an event as the Ruby Routemaster stores it. */
export function rubyEvent(topic: string, url: string): Buffer {
  return Buffer.from(encode(['e', { t: Date.now(), o: topic, y: 'create', u: url, d: null }]));
}

/** A web process of the Ruby Routemaster: it sends the same commands to Redis when an event is published. */
export class RubyWeb {
  readonly #redis: Commands;
  readonly #eval: Eval;

  constructor(redis: Commands) {
    this.#redis = redis;
    this.#eval = evalOn(redis);
  }

  /** Returns the UID of each batch that got the event. `between` runs after the current batch was read. */
  async publish(topic: string, url: string, between?: () => Promise<unknown>): Promise<string[]> {
    const bids: string[] = [];
    for (const token of await this.#redis.smembers(`subscribers:${topic}`)) {
      const { timeout = '500', max_events: max = '100' } = await this.#redis.hgetall(`subscriber:${token}`);
      const current = (await this.#redis.srandmember(`batches:current:${token}`)) ?? '';
      await between?.();
      const fresh = uid();
      const nowMs = Date.now();
      const [bid, length] = (await this.#eval(
        INGEST,
        [
          `batches:current:${token}`,
          `batches:${current}`,
          `batches:${fresh}`,
          'batches:index',
          'batches:gauges:batch',
          'batches:gauges:event',
        ],
        [current, fresh, rubyEvent(topic, url), token, max, nowMs],
      )) as [string, number];
      const job = packJob('batch', [bid]);
      await this.#eval(PUSH, ['jobs:scheduled:main', 'jobs:index:main'], [job, nowMs + Number(timeout)]);
      if (length >= Number(max))
        await this.#eval(PROMOTE, ['jobs:scheduled:main', 'jobs:instant:main'], [job]);
      bids.push(bid);
    }
    await this.#redis.hincrby(`topic:${topic}`, 'counter', 1);
    return bids;
  }
}

/** Delivers events, in their stored form, to a callback. */
type Deliver = (callback: string, events: Buffer[]) => Promise<unknown>;

/** A worker of the Ruby Routemaster for the queue `main`, which also promotes due jobs. */
export class RubyWorker {
  readonly id = uid();
  /** The events that it delivered. */
  readonly delivered: Buffer[] = [];
  readonly #redis: Commands;
  readonly #eval: Eval;
  readonly #send: Deliver;
  #loop: Promise<void> | undefined;
  #stopped = false;

  constructor(redis: Commands, send: Deliver = async () => {}) {
    this.#send = send;
    // A connection of its own, because waiting for a job occupies it.
    this.#redis = redis.duplicate({ enableOfflineQueue: true });
    this.#eval = evalOn(this.#redis);
  }

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
    this.#redis.disconnect();
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      await this.#eval(SCHEDULE, ['jobs:scheduled:main', 'jobs:instant:main'], [Date.now()]);
      await this.work(0.2);
    }
  }

  async heartbeat(): Promise<void> {
    await this.#redis.hset('workers', this.id, Date.now());
  }

  /** Waits for a job and runs it. Returns false if there was none. */
  async work(timeoutSeconds: number): Promise<boolean> {
    const pending = `jobs:pending:main:${this.id}`;
    await this.heartbeat();
    const job = await this.#redis.brpoplpushBuffer('jobs:instant:main', pending, timeoutSeconds);
    if (!job) return false;
    await this.#redis.sadd('jobs:pending:index:main', this.id);
    await this.#deliver(job.subarray(-20).toString());
    await this.#eval(ACK, [pending, 'jobs:index:main'], [job]);
    return true;
  }

  async #deliver(bid: string): Promise<void> {
    const list = `batches:${bid}`;
    const token = (await this.#redis.lindexBuffer(list, 0)) ?? Buffer.of();
    const current = token.length > 0 ? Buffer.concat([Buffer.from('batches:current:'), token]) : '';
    await this.#redis.srem(current, bid);
    const isKnown = (await this.#redis.sismember('subscribers', token)) === 1;
    const events = isKnown ? await this.#redis.lrangeBuffer(list, HEADER, -1) : [];
    if (events.length > 0)
      await this.#send((await this.#redis.hget(`subscriber:${token}`, 'callback')) ?? '', events);
    this.delivered.push(...events);
    await this.#eval(
      DELETE,
      [list, 'batches:index', current, 'batches:gauges:batch', 'batches:gauges:event'],
      [bid, token],
    );
  }
}
