import { keyOf } from '../../src/flow/joins/join_key.ts';
import type { JoinRules } from '../../src/flow/joins/join_rules.ts';
import { type Join, joinArguments, outletsOf, readJoin } from '../../src/flow/joins/join_store.ts';
import { joinToken } from '../../src/ids.ts';
import type { Arguments, Reply } from '../../src/store/contracts.ts';
import { Partitions } from '../../src/store/partitions.ts';
import type { Bus } from './bus.ts';
import { PUBLISH_LIMITS } from './bus_inputs.ts';
import { longName, nthWord, packNamed, seedOf } from './names.ts';
import { DELIVERY_LOG, RECORD } from './worker_calls.ts';

export const CLIENT = 'shop';
const ROOM = 10_000;
const LIMITS = {
  ...{ maxJoins: ROOM, maxClientJoins: ROOM, maxTopics: ROOM, maxClientTopics: ROOM },
  ...{ maxJoinKeys: ROOM, maxJoinBytes: 100_000_000, maxOutboxBytes: PUBLISH_LIMITS.maxOutboxBytes },
};
const LEASE_MS = 30_000;

export type Rules = Partial<JoinRules> & Pick<JoinRules, 'sources'>;

/** Rules of a join by `data.key` that publishes to `ready`. */
function rulesOf({ sources, ...rest }: Rules): JoinRules {
  const usual = { by: 'data.key', then: { topic: 'ready', type: 'update' }, within: 60_000 } as const;
  return { sources, ...usual, on_expiry: null, ...rest };
}

interface Counting {
  /** Number of events to count, from the first on; by default all. */
  slice?: number;
  maxKeys?: number;
  maxBytes?: number;
  /** The version of the join's rules; by default the present one. */
  version?: string;
  lease?: number;
  createdMs?: number;
}

/** Calls the scripts of joins as the bus does. All joins belong to one client, by default `shop`. */
export class JoinCalls {
  readonly #bus: Bus;
  readonly #client: string;
  readonly #seed: string;
  #calls = 0;

  /** `seed` begins the names of batches. Two objects on one bus need different ones. */
  constructor(bus: Bus, client = CLIENT, seed = 'j') {
    this.#bus = bus;
    this.#client = client;
    this.#seed = seed;
  }

  async put(name: string, rules: Rules, limits: Partial<typeof LIMITS> = {}): Promise<Reply<'put_join'>> {
    const whole = rulesOf(rules);
    const [sources, outlets] = [whole.sources.map(({ topic }) => topic), outletsOf(whole)];
    return this.#bus.store.run('put_join', {
      ...{ ...LIMITS, ...limits },
      ...{ token: joinToken(name, this.#client), name, client: this.#client, rules: JSON.stringify(whole) },
      withinMs: whole.within,
      ...{ sources, outlets, sourcesHere: sources, outletsHere: outlets, foreignSources: [] },
      judgesOnly: false,
    });
  }

  async find(name: string): Promise<Join> {
    const join = await readJoin(this.#bus.store, joinToken(name, this.#client));
    if (!join) throw new Error(`there is no join ${name}`);
    return join;
  }

  /** Counts events of a batch that the worker holds. */
  async count(...of: Parameters<JoinCalls['counting']>): Promise<Reply<'join_events'>> {
    return this.#bus.store.run('join_events', await this.counting(...of));
  }

  /** Returns the arguments of a call that counts events of a batch which the worker holds. */
  async counting(
    name: string,
    worker: string,
    job: string,
    { slice, maxKeys = ROOM, maxBytes = LIMITS.maxJoinBytes, version, lease, createdMs }: Counting = {},
  ): Promise<Arguments<'join_events'>> {
    const { store, leases } = this.#bus;
    const bid = longName(job);
    const join = await this.find(name);
    const [, created, , ...texts] = await store.redis.lrange(store.keys.batch(bid), 0, -1);
    const events = texts.map((text) => JSON.parse(text)).slice(0, slice);
    return {
      ...this.#arguments(version === undefined ? join : { ...join, version }),
      ...{
        q: 'main',
        worker,
        job: packNamed(job),
        lease: lease ?? leases.get(worker) ?? 0,
        leaseMs: LEASE_MS,
      },
      ...{ laneLimit: 10, laneLimitMax: 100, slowMs: 1000, deliveryLog: DELIVERY_LOG, record: RECORD },
      ...{ bid, maxKeys, maxBytes, createdMs: createdMs ?? Number(created ?? 0) },
      batchEvents: texts.length,
      events: events.map(({ topic, id, url, data }) => ({
        ...{ topic, id, url },
        key: keyOf({ url, data }, join.rules.by),
      })),
    };
  }

  /** `movedUntilMs` is given if the bus has several partitions. */
  async expire(
    name: string,
    {
      maxClosed = 100,
      version,
      movedUntilMs,
    }: { maxClosed?: number; version?: string; movedUntilMs?: number } = {},
  ) {
    const join = await this.find(name);
    const known = version === undefined ? join : { ...join, version };
    return this.#bus.store.run('expire_keys', {
      ...this.#arguments(known),
      maxClosed,
      movedUntilMs,
    });
  }

  /** Batches that the first call opens are named `jaa1` and so on, those of the second call `jab1`. */
  #arguments(join: Join) {
    const partitions = new Partitions(this.#bus.store);
    return {
      ...joinArguments(join, LIMITS, partitions),
      uidSeed: seedOf(`${this.#seed}${nthWord(this.#calls++ % 676)}`),
    };
  }

  /** Gives the next batch of joins to a worker, and counts its events. */
  async work(name: string, worker = 'w1', counting: Counting = {}): Promise<Reply<'join_events'>> {
    const { grants } = await this.#bus.acquire([worker]);
    const [grant] = grants;
    if (!grant) throw new Error('nothing is queued');
    return this.count(name, worker, grant.job, counting);
  }
}

let lastId = 0;

/** Returns the text of an event with this join key. */
export function joinEvent(topic: string, key: unknown, id = `e${++lastId}`): string {
  const url = `https://shop.example.com/${id}`;
  return JSON.stringify({ id, topic, type: 'create', url, t: 1, data: { key } });
}
