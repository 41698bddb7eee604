import assert from 'node:assert/strict';
import { Bus } from '../../harness/scripts/bus.ts';
import { DELAY_LIMITS, type Published } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { JoinCalls, joinEvent } from '../../harness/scripts/join_calls.ts';
import { longName, nthWord } from '../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { type Firing, fireTriggers, putTrigger } from '../../harness/scripts/triggers.ts';
import { DELIVERY_LOG } from '../../harness/scripts/worker_calls.ts';
import { allows, scopeList } from '../../src/authentication/scope.ts';
import { readJoin } from '../../src/flow/joins/join_store.ts';
import { joinToken, readJoinToken } from '../../src/ids.ts';
import { addedBySubscriber } from '../../src/publishing/publication.ts';
import type { Scopes } from '../../src/routing/caller.ts';
import type { Reply } from '../../src/store/contracts.ts';
import type { Partition } from '../../src/store/partition.ts';
import { assertPermitted, scopesOf } from './flow_limits.ts';
import { Receivers } from './receivers.ts';
import { dump, restore } from './replica.ts';
import { pick } from './step.ts';

const CLIENTS = ['shop', 'mill'];
export const TOPICS = ['paid', 'packed', 'ready', 'stuck'];
const SCOPES: Scopes[] = [
  {},
  {},
  { publish: ['paid', 'ready'] },
  { publish: ['p*'] },
  { subscribe: ['paid', 'packed'] },
  { subscribe: ['packed'], publish: ['ready'] },
  { subscribe: [] },
];
/** The subscriber of what joins publish. It is paused, so its queue shows all of that. */
const WATCHER = 'office';
const EVERY_SECOND = 1000;

/** What a replica has of the partition, and what was known then. */
interface Replica {
  dumps: Awaited<ReturnType<typeof dump>>;
  queued: Map<string, number>;
  handled: Set<Firing>;
  fired: Map<string, number>;
  secrets: Set<string>;
}

/**
 * Clients with subscribers, triggers and joins in one partition. The scene knows how many events each subscriber was
 * given and has lost again, what the triggers have fired, and what limits permit.
 *
 * When another Redis takes over, all these figures are as they were at the last replication. Events of triggers and
 * joins are undone together with the due times, counts and keys that they came from. So a trigger may fire again for a
 * due time, with the same id. An event of a join may be published again under its former id, and no other event has
 * this id. No new event comes in a batch whose id a receiver has taken already: it would ignore it as a repeat.
 */
export class FlowScene {
  readonly did: string[] = [];
  readonly #bus: Bus;
  readonly #joins: Record<string, JoinCalls>;
  /** For each subscriber, the number of events that were added to its queue and not removed. */
  #queued = new Map<string, number>();
  /** What workers have planned to fire; true if that was handled. */
  readonly #firings = new Map<Firing, boolean>();
  #fired = new Map<string, number>();
  /** The clients that have a secret. */
  #secrets = new Set<string>();
  readonly #receivers = new Receivers();
  /** What joins have published for the watcher, by id, also what a failover has undone. */
  readonly #byId = new Map<string, string>();
  #replica!: Replica;
  #calls = 0;

  static async begin(store: Partition): Promise<FlowScene> {
    await store.redis.flushall();
    const scene = new FlowScene(store);
    for (let index = 0; index < CLIENTS.length; index++) await scene.register(index, 0);
    await scene.watch();
    await scene.#bus.pause(WATCHER);
    await scene.replicate();
    return scene;
  }

  private constructor(store: Partition) {
    this.#bus = new Bus(() => store);
    this.#joins = Object.fromEntries(
      CLIENTS.map((client) => [client, new JoinCalls(this.#bus, client, client)]),
    );
  }

  get #store(): Partition {
    return this.#bus.store;
  }

  async publish(c: number, t: number, keys: string[]): Promise<void> {
    const [client, topic] = [pick(CLIENTS, c) ?? '', pick(TOPICS, t) ?? ''];
    const published: Published = [topic, client, keys.map((key) => joinEvent(topic, key))];
    const { added, accepted } = await this.#bus.publishAll(this.#seed(), published);
    for (const [token, events] of Object.entries(added)) this.#add(token, events);
    await this.#check(`publish ${keys} to ${topic} by ${client}: ${accepted}`);
  }

  /** Subscribes the watcher again. The removal of a topic may have ended its subscription. */
  async watch(): Promise<void> {
    await this.#bus.subscribe(WATCHER, { topics: ['ready', 'stuck'] });
    await this.#check('watch');
  }

  async subscribe(c: number, topics: string[]): Promise<void> {
    const client = pick(CLIENTS, c) ?? '';
    const { subscribe } = await scopesOf(this.#store, client);
    if (topics.every((topic) => allows(subscribe, topic)))
      await this.#bus.subscribe(client, { topics, timeout: 0, max: 3 });
    await this.#check(`subscribe ${client} to ${topics}`);
  }

  async unsubscribe(c: number, t: number): Promise<void> {
    const [token, topic] = [pick(CLIENTS, c) ?? '', pick(TOPICS, t) ?? ''];
    await this.#store.run('unsubscribe', { token, topic, isForeign: false });
    await this.#check(`unsubscribe ${token} from ${topic}`);
  }

  /** Removes a subscriber. If `isCut`, its queue and dead letters stay, as if the process had died in between. */
  async leave(c: number, isCut: boolean): Promise<void> {
    const client = pick(CLIENTS, c) ?? '';
    await this.#leave(client, isCut);
    await this.#check(`leave ${client} ${isCut}`);
  }

  async endJoin(c: number, j: number, isCut: boolean): Promise<void> {
    const token = this.#tokenOf(c, j);
    await this.#leave(token, isCut);
    await this.#check(`end ${token} ${isCut}`);
  }

  async #leave(token: string, isCut: boolean): Promise<void> {
    const { nowMs } = await this.#store.run('remove_subscriber', { token, series: [] });
    if (!isCut) await this.#drop(token, nowMs);
  }

  /** Drops the queue and the dead letters of a subscriber that has left. */
  async #drop(token: string, untilMs?: number): Promise<void> {
    const { redis, keys } = this.#store;
    const bids = await redis.zrange(keys.dead_letters_of(token), '0', '-1');
    await this.#store.run('purge', { token, deliveryLog: DELIVERY_LOG, bids });
    const { events } = await this.#bus.dropQueue(token, 500, untilMs);
    this.#add(token, -events);
  }

  async removeTopic(t: number): Promise<void> {
    const topic = pick(TOPICS, t) ?? '';
    await this.#store.run('remove_topic', { topic, series: [] });
    await this.#check(`remove ${topic}`);
  }

  async giveTopic(t: number, c: number): Promise<void> {
    const [topic, client] = [pick(TOPICS, t) ?? '', pick(CLIENTS, c) ?? ''];
    const { maxClientTopics, maxClientDelayed, maxClientBytes } = DELAY_LIMITS;
    const limits = { maxClientTopics, maxClientDelayed, maxClientBytes };
    const outcome = await this.#store.run('give_topic', { topic, client, ...limits });
    await this.#check(`give ${topic} to ${client}: ${outcome}`);
  }

  async register(c: number, s: number): Promise<void> {
    const token = pick(CLIENTS, c) ?? '';
    const scopes = scopeList(pick(SCOPES, s) ?? {});
    const named = { token, name: token, keepsName: false };
    const { outcome, ended } = await this.#store.run('register_client', { ...named, scopes });
    assert.equal(outcome, this.#secrets.has(token) ? 'has_secret' : 'ok');
    for (const join of ended) await this.#drop(join);
    await this.#check(`register ${token} ${JSON.stringify(scopes)}: ${ended}`);
  }

  /** Gives a client its first secret, or replaces its secret. */
  async rotate(c: number): Promise<void> {
    const token = pick(CLIENTS, c) ?? '';
    const { redis, keys } = this.#store;
    const isKnown = await this.#isKnown(token);
    const secret = { ha1_sha256: `s${this.#calls}`, ha1_md5: 'm' };
    const rotation = { token, ha1Sha256: secret.ha1_sha256, ha1Md5: secret.ha1_md5, graceMs: 60_000 };
    const before = await redis.hget(keys.api_token(token), 'ha1_sha256');
    const outcome = await this.#store.run('rotate_secret', rotation);
    assert.equal(outcome, isKnown ? (this.#secrets.has(token) ? 'ok' : 'no_secret') : 'client_not_found');
    if (outcome === 'ok') assert.equal(await redis.hget(keys.former_secret(token), 'ha1_sha256'), before);
    if (isKnown) await redis.hset(keys.api_token(token), secret);
    if (isKnown) this.#secrets.add(token);
    await this.#check(`rotate ${token}: ${outcome}`);
  }

  async limit(c: number, s: number, isCut: boolean): Promise<void> {
    const token = pick(CLIENTS, c) ?? '';
    const scopes = scopeList(pick(SCOPES, s) ?? {});
    const isKnown = await this.#isKnown(token);
    const known = { token, name: '', keepsName: true };
    const { outcome, ended } = await this.#store.run('register_client', { ...known, scopes });
    assert.equal(outcome, isKnown ? 'ok' : 'client_not_found');
    if (!isCut) for (const join of ended) await this.#drop(join);
    await this.#check(`limit ${token} ${JSON.stringify(scopes)}: ${ended}`);
  }

  async removeClient(c: number, isCut: boolean): Promise<void> {
    const token = pick(CLIENTS, c) ?? '';
    const isKnown = await this.#isKnown(token);
    assert.equal(await this.#store.run('remove_client', { token }), isKnown);
    this.#secrets.delete(token);
    for (const name of ['daily', 'hourly']) this.#fired.delete(`${name} ${token}`);
    const { redis, keys } = this.#store;
    const joins = (await redis.smembers(keys.joins_of(token))).map((name) => joinToken(name, token));
    if (!isCut) for (const each of [token, ...joins]) await this.#leave(each, false);
    await this.#check(`remove client ${token} ${isCut}`);
  }

  /** Puts a trigger that is due now or in a minute. */
  async putTrigger(c: number, name: string, t: number, isDue: boolean, paused: boolean): Promise<void> {
    const [client, topic] = [pick(CLIENTS, c) ?? '', pick(TOPICS, t) ?? ''];
    const { publish } = await scopesOf(this.#store, client);
    const nextAt = (await this.#bus.nowMs()) + (isDue ? -1 : 60_000);
    const isFixed = false;
    const outcome = await putTrigger(this.#store, name, {
      client,
      topic,
      nextAt,
      paused,
      limits: { isFixed },
    });
    if (!(await this.#isKnown(client))) assert.equal(outcome, 'client_not_found');
    else if (!allows(publish, topic)) assert.equal(outcome, 'not_permitted');
    else assert.match(outcome, /^(created|changed|claimed_by_other)$/);
    if (outcome === 'created') this.#fired.set(`${name} ${client}`, 0);
    await this.#check(`trigger ${name} ${client} to ${topic}: ${outcome}`);
  }

  async removeTrigger(c: number, name: string): Promise<void> {
    const client = pick(CLIENTS, c) ?? '';
    const removed = await this.#store.run('remove_trigger', { client, name, isNoted: false });
    assert.equal(this.#fired.delete(`${name} ${client}`), removed);
    await this.#check(`remove ${name} ${client}: ${removed}`);
  }

  /** Plans what is due, as a worker does. */
  async plan(): Promise<void> {
    const { due } = await this.#store.run('due_triggers', {
      limit: 100,
      firstClient: 0,
      maxOutboxBytes: 1_000_000,
    });
    for (const { client, name, revision, dueAt } of due) {
      const planned = { ...{ client, name, revision, dueAt, times: [dueAt], missed: 0 }, error: undefined };
      this.#firings.set({ ...planned, nextAt: dueAt + EVERY_SECOND }, false);
    }
    await this.#check(`plan ${due.map(({ name, client }) => `${name} ${client}`)}`);
  }

  /** Fires what was planned, even if it was handled before or its trigger was replaced since. */
  async fire(n: number, isLast: boolean): Promise<void> {
    const all = [...this.#firings.keys()];
    const firing = isLast ? all.at(-1) : pick(all, n);
    if (!firing) return;
    const { outcomes, published } = await fireTriggers(this.#store, this.#seed(), [firing]);
    const [{ outcome, fired } = assert.fail()] = outcomes;
    if (this.#firings.get(firing)) assert.equal(outcome, 'changed', 'what was handled is not fired again');
    const trigger = `${firing.name} ${firing.client}`;
    if (outcome !== 'changed') this.#firings.set(firing, true);
    if (fired > 0) this.#fired.set(trigger, (this.#fired.get(trigger) ?? Number.NaN) + fired);
    this.#note(published);
    await this.#check(`fire ${trigger} ${firing.dueAt}: ${outcome}`);
  }

  async putJoin(c: number, j: number, sources: string[], topic: string, within: number): Promise<void> {
    const client = pick(CLIENTS, c) ?? '';
    const { publish, subscribe } = await scopesOf(this.#store, client);
    const isPermitted =
      sources.every((each) => allows(subscribe, each)) &&
      [topic, 'stuck'].every((each) => allows(publish, each));
    if (!isPermitted) return;
    const name = this.#nameOf(c, j);
    const rules = {
      sources: sources.map((each) => ({ topic: each, count: 1 })),
      then: { topic, type: 'update' as const },
      within,
      on_expiry: topic === 'stuck' ? null : { topic: 'stuck', type: 'noop' as const },
    };
    const { outcome } = (await this.#joins[client]?.put(name, rules)) ?? assert.fail();
    await this.#check(`join ${name} of ${sources} to ${topic}: ${outcome}`);
  }

  async expire(c: number, j: number): Promise<void> {
    if (!(await this.#store.redis.sismember(this.#store.keys.joins(), this.#tokenOf(c, j)))) return;
    const client = pick(CLIENTS, c) ?? '';
    const { published, expired } = (await this.#joins[client]?.expire(this.#nameOf(c, j))) ?? assert.fail();
    this.#note(published);
    await this.#check(`expire ${this.#nameOf(c, j)}: ${expired}`);
  }

  /** Gives a worker a batch, which the worker counts for a join, or delivers. The worker may die before the end. */
  async work(
    worker: string,
    how: 'ack' | 'nack' | 'bury' | 'die',
    slice: number,
    twice: boolean,
  ): Promise<void> {
    const [grant] = (await this.#bus.acquire([worker], { seed: this.#seed() })).grants;
    if (!grant) return;
    const { job } = grant;
    const { redis, keys } = this.#store;
    const token = (await redis.lindex(keys.batch(longName(job)), 0)) ?? '';
    const join = readJoinToken(token) && (await readJoin(this.#store, token));
    let outcome: string = how;
    const events = grant.subscriber && !join ? (grant.batch?.slice(3) ?? []) : undefined;
    if (events) this.#receivers.give(token, job, events);
    const place = Number(await redis.zscore(keys.batches_queued(token), longName(job)));
    if (join && place > join.countsAfter) outcome = await this.#count(token, worker, job, slice, twice);
    else if (how === 'ack' || !grant.subscriber) {
      if (events) this.#receivers.accept(token, events);
      await this.#ack(token, worker, job);
    } else if (how === 'nack') await this.#bus.nack(worker, job);
    else if (how === 'bury') await this.#bury(token, worker, job, 'max_attempts');
    await this.#check(`work ${worker} ${job} of ${token}: ${outcome}`);
  }

  async #count(token: string, worker: string, job: string, slice: number, twice: boolean): Promise<string> {
    const { name = '', client = '' } = readJoinToken(token) ?? {};
    const call = (await this.#joins[client]?.counting(name, worker, job, { slice })) ?? assert.fail();
    const reply = await this.#store.run('join_events', call);
    this.#add(token, -reply.removed);
    this.#note(reply.published);
    if (twice && reply.removed > 0) {
      const again = await this.#store.run('join_events', call);
      assert.equal(again.outcome, 'not_held', 'what was counted is not counted again');
    }
    if (reply.outcome === 'refused') await this.#bury(token, worker, job, 'join_refused');
    return `${reply.outcome} ${reply.removed}`;
  }

  async #ack(token: string, worker: string, job: string): Promise<void> {
    const { held, removed } = await this.#bus.ack(worker, job);
    assert.ok(held);
    this.#add(token, -removed);
  }

  async #bury(token: string, worker: string, job: string, reason: string): Promise<void> {
    const { buried, dropped } = await this.#bus.bury(worker, job, { reason });
    this.#add(token, -buried - dropped);
  }

  /** Retries all dead letters. */
  async revive(): Promise<void> {
    const bids = await this.#store.redis.zrange(this.#store.keys.dead_letters_index(), '0', '-1');
    const revived = await this.#store.run('revive', { token: '', bids });
    for (const { token, events = 0 } of revived) if (token) this.#add(token, events);
    await this.#check(`revive ${revived.map(({ outcome }) => outcome)}`);
  }

  async scrub(): Promise<void> {
    await this.#bus.scrub(-1);
    await this.#check('scrub');
  }

  async replicate(): Promise<void> {
    this.#replica = {
      dumps: await dump(this.#store),
      queued: new Map(this.#queued),
      handled: new Set([...this.#firings.keys()].filter((firing) => this.#firings.get(firing))),
      fired: new Map(this.#fired),
      secrets: new Set(this.#secrets),
    };
    await this.#check('replicate');
  }

  /** Makes another Redis take over, which lacks what was done since it was replicated. Workers keep what they hold. */
  async failOver(): Promise<void> {
    await this.#noteJoinEvents();
    const { dumps, queued, handled, fired, secrets } = this.#replica;
    await restore(this.#store, dumps);
    this.#queued = new Map(queued);
    for (const firing of this.#firings.keys()) this.#firings.set(firing, handled.has(firing));
    this.#fired = new Map(fired);
    this.#secrets = new Set(secrets);
    await this.#check('fail over');
  }

  #note(published: Reply<'publish'>['published']): void {
    for (const [token, events] of published.flatMap(addedBySubscriber)) this.#add(token, events);
  }

  #add(token: string, events: number): void {
    this.#queued.set(token, (this.#queued.get(token) ?? 0) + events);
  }

  async #check(what: string): Promise<void> {
    this.did.push(what);
    await assertConsistent(this.#store);
    const { redis, keys } = this.#store;
    const gauge = await redis.hgetall(keys.gauge_events());
    const queued = [...this.#queued].filter(([, events]) => events !== 0);
    const expected = queued.map(([token, events]) => [token, String(events)]);
    assert.deepEqual({ ...gauge }, Object.fromEntries(expected), 'what was added is queued, or was removed');
    for (const client of CLIENTS) {
      await assertPermitted(this.#store, client);
      const hasSecret = (await redis.hexists(keys.api_token(client), 'ha1_sha256')) === 1;
      assert.equal(hasSecret, this.#secrets.has(client), `whether ${client} has a secret`);
    }
    for (const [trigger, fired] of this.#fired) {
      const [name = '', client = ''] = trigger.split(' ');
      assert.equal(
        await redis.hget(keys.trigger(client, name), 'fired'),
        String(fired),
        `${trigger} has fired`,
      );
    }
  }

  /** Asserts that nothing is left behind, and that no join has published an event twice. */
  async end(): Promise<void> {
    await assertNothingToSweep(this.#store);
    const seen = new Set<string>();
    for (const { data } of await this.#noteJoinEvents())
      for (const id of data.events) {
        assert.ok(!seen.has(`${data.join} ${id}`), `${data.join} has counted ${id} once`);
        seen.add(`${data.join} ${id}`);
      }
  }

  /** Returns the events of joins in the queue of the watcher. Asserts that no other event has had one of their ids. */
  async #noteJoinEvents(): Promise<{ data: { join: string; events: string[] } }[]> {
    const { batches } = await this.#bus.state();
    const texts = Object.values(batches).flatMap(({ token, events }) => (token === WATCHER ? events : []));
    const all = texts.map((text) => JSON.parse(text)).filter(({ data }) => data?.join);
    for (const { t: _, id, ...event } of all) {
      const text = JSON.stringify(event);
      assert.equal(text, this.#byId.get(id) ?? text, `${id} names one event`);
      this.#byId.set(id, text);
    }
    return all;
  }

  async #isKnown(client: string): Promise<boolean> {
    return (await this.#store.redis.hexists(this.#store.keys.api_tokens(), client)) === 1;
  }

  #nameOf(c: number, j: number): string {
    return `${pick(CLIENTS, c)}_${j}`;
  }

  #tokenOf(c: number, j: number): string {
    return joinToken(this.#nameOf(c, j), pick(CLIENTS, c) ?? '');
  }

  #seed(): string {
    return nthWord(this.#calls++ % 676);
  }
}
