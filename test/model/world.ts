import assert from 'node:assert/strict';
import type { Bus } from '../../harness/scripts/bus.ts';
import { type Image, imageOf, type Readable } from '../../harness/scripts/image.ts';
import { assertImageConsistent } from '../../harness/scripts/invariants.ts';
import { shortName } from '../../harness/scripts/names.ts';
import { readState, type State } from '../../harness/scripts/state.ts';
import { assertEqual } from './compare.ts';
import { assertDeliveries } from './deliveries.ts';
import type { Model } from './model.ts';
import { Receivers } from './receivers.ts';
import { dump, restore } from './replica.ts';

/** Lets time pass in Redis: makes all its times earlier by ARGV[1] ms. The keys begin with ARGV[2]. */
const PASS = `
local ms = tonumber(ARGV[1])
local prefix = ARGV[2]
for _, q in ipairs({ 'main', 'aux' }) do
  local scheduled = redis.call('ZRANGE', prefix .. 'jobs:scheduled:' .. q, 0, -1)
  for _, job in ipairs(scheduled) do redis.call('ZINCRBY', prefix .. 'jobs:scheduled:' .. q, -ms, job) end
end
for _, worker in ipairs(redis.call('HKEYS', prefix .. 'workers')) do redis.call('HINCRBY', prefix .. 'workers', worker, -ms) end
for _, worker in ipairs(redis.call('HKEYS', prefix .. 'leases')) do redis.call('HINCRBY', prefix .. 'leases', worker, -1000 * ms) end
redis.call('DECRBY', prefix .. 'leases:last', 1000 * ms)
for _, topic in ipairs(redis.call('ZRANGE', prefix .. 'delayed:topics', 0, -1)) do
  redis.call('ZINCRBY', prefix .. 'delayed:topics', -ms, topic)
  for _, entry in ipairs(redis.call('ZRANGE', prefix .. 'delayed:due:' .. topic, 0, -1)) do
    redis.call('ZINCRBY', prefix .. 'delayed:due:' .. topic, -ms, entry)
  end
end
for _, token in ipairs(redis.call('SMEMBERS', prefix .. 'subscribers')) do
  local subscriber = prefix .. 'subscriber:' .. token
  if redis.call('HEXISTS', subscriber, 'throttled_until') == 1 then redis.call('HINCRBY', subscriber, 'throttled_until', -ms) end
end`;

/** What a replica has of a partition, and what the model was then. */
interface Replica {
  dumps: Awaited<ReturnType<typeof dump>>;
  model: Model;
  opened: ReadonlyMap<string, string>;
}

/** The real bus, and the state of Redis that was read last. */
export class World {
  readonly bus: Bus;
  /** Called after each step. */
  readonly counted: () => void;
  /** The leases that the bus has given so far. */
  readonly leases: { worker: string; job: string; lease: number }[] = [];
  /** What receivers have got, from this Redis and from those before it. */
  readonly receivers = new Receivers();
  state!: State;
  #seen!: Readable & { image: Image };
  #names = 0;
  #looks = 0;
  #events = 0;
  #ticks = 0;
  /** The subscriber of each batch that Redis ever had, unless it has left or the batch was cut since. */
  #opened = new Map<string, string>();
  #replica: Replica | undefined;

  constructor(bus: Bus, counted: () => void) {
    this.bus = bus;
    this.counted = counted;
  }

  /** Returns the lease under which a worker got this job. Asserts that it is `ongoing`, or else a new one. */
  leaseOf(worker: string, job: string, ongoing: number | undefined): number {
    const lease = this.bus.leases.get(worker) ?? assert.fail();
    if (ongoing !== undefined) {
      assert.equal(lease, ongoing, `the lease of ${worker} goes on`);
      return lease;
    }
    assert.ok(lease > (this.leases.at(-1)?.lease ?? 0), `${lease} is a new lease`);
    this.leases.push({ worker, job, lease });
    return lease;
  }

  /** Returns the seed of one more call. Like real seeds, they do not sort in the order of calls. */
  seed(): string {
    let rest = (++this.#names * 7919) % 26 ** 4;
    let word = '';
    for (let i = 0; i < 4; i++) {
      word += String.fromCharCode(97 + (rest % 26));
      rest = Math.floor(rest / 26);
    }
    return word;
  }

  /** Returns a larger number each time. */
  tick(): number {
    return ++this.#ticks;
  }

  events(n: number): string[] {
    return Array.from({ length: n }, () => `e${++this.#events}`);
  }

  /** Resolves with the names of the dead letters, sorted by the time of death. */
  async letters(): Promise<string[]> {
    const { redis, keys } = this.#seen;
    return (await redis.zrange(keys.dead_letters_index(), '0', '-1')).map(shortName);
  }

  /** Resolves with the dead letters and when they died (ms, clock of Redis), in this order. */
  async deaths(): Promise<{ name: string; diedMs: number }[]> {
    const { redis, keys } = this.#seen;
    const flat = await redis.zrange(keys.dead_letters_index(), '0', '-1', 'WITHSCORES');
    return flat.flatMap((bid, index) =>
      index % 2 ? [] : [{ name: shortName(bid), diedMs: Number(flat[index + 1]) }],
    );
  }

  /** Lets time pass in Redis and the model. The numbers of leases are times, so they change too. */
  async pass(model: Model, ms: number): Promise<void> {
    await this.#passInRedis(model, ms);
    for (const each of this.leases) each.lease -= 1000 * ms;
    for (const [worker, lease] of this.bus.leases) this.bus.leases.set(worker, lease - 1000 * ms);
  }

  async #passInRedis(model: Model, ms: number): Promise<void> {
    const { redis, prefix } = this.bus.store;
    await redis.eval(PASS, 0, ms, prefix);
    model.nowMs += ms;
    for (const hold of model.holds.values()) hold.lease -= 1000 * ms;
  }

  /** Makes the replica have all that was done until now. */
  async replicate(model: Model): Promise<void> {
    this.#replica = {
      dumps: await dump(this.bus.store),
      model: structuredClone({ ...model }) as Model,
      opened: new Map(this.#opened),
    };
  }

  /**
   * Promotes the replica, which lacks what was done since. If there is none yet, Redis is only restarted. The clock
   * goes on, and workers keep the leases that they got last, unless the new Redis knows an older one. Returns the time
   * (ms) since the replica had all, in the model.
   */
  async failOver(model: Model): Promise<number> {
    if (!this.#replica) await this.replicate(model);
    const { dumps, model: then, opened } = this.#replica ?? assert.fail();
    const lostMs = model.nowMs - then.nowMs;
    await restore(this.bus.store, dumps);
    Object.assign(model, then, { isNewRun: true });
    if (lostMs > 0) await this.#passInRedis(model, lostMs);
    this.#opened = new Map(opened);
    for (const [worker, { lease }] of model.holds) this.bus.leases.set(worker, lease);
    await this.replicate(model);
    return lostMs;
  }

  /** Makes the next call look for slow deliveries, which otherwise happens four times a second. */
  async lookForSlow(): Promise<void> {
    await this.bus.store.redis.decrby(this.bus.store.keys.leases_last(), 250_000);
  }

  /** Asserts that no byte in Redis has changed since it was read last. */
  async assertUnchanged(): Promise<void> {
    const { image } = await imageOf(this.bus.store);
    assert.equal(image.content, this.#seen.image.content, 'nothing has changed');
  }

  /** Reads the whole Redis. Asserts that it is consistent, and that it holds what the model has. */
  async verify(model: Model): Promise<void> {
    this.#seen = await imageOf(this.bus.store);
    this.state = await readState(this.#seen);
    model.adopt(this.state.batches);
    model.place(this.state.queued);
    await assertImageConsistent(this.#seen);
    await assertEqual(model, this.#seen, this.state);
    for (const [name, { token }] of Object.entries(this.state.batches)) this.#opened.set(name, token);
    for (const [name, token] of this.#opened)
      if (!model.subscribers.has(token) || model.cut.has(name)) this.#opened.delete(name);
    await assertDeliveries(model, this.bus.store, this.#opened, this.#looks++);
  }
}
