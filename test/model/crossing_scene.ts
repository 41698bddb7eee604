import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { DELAY_LIMITS, PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { assertPartitionsConsistent, beginBus, nameIn } from '../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import type { JoinRules } from '../../src/flow/joins/join_rules.ts';
import { joinToken, uidSeed } from '../../src/ids.ts';
import { createLog } from '../../src/log.ts';
import { outboxJob } from '../../src/maintenance/outbox_job.ts';
import type { Publication } from '../../src/publishing/publication.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Partitions } from '../../src/store/partitions.ts';
import { marksIn } from '../../src/subscribing/topic_marks.ts';
import { type Change, Crossing, type Known } from './crossing.ts';
import { nameOf, observe } from './crossing_observer.ts';
import { makeDue, Process } from './crossing_process.ts';
import { type Fate, Gate, isOver, type Task } from './gate.ts';
import { MovingTrigger } from './moving_trigger.ts';
import { dump, restore } from './replica.ts';
import { pick } from './step.ts';

const LEASE_MS = 30_000;
const QUEUE = { laneLimit: 10, laneLimitMax: 100, leaseMs: LEASE_MS, deliveryLog: 0 };
const CLIENT = 'shop';
const FINGERPRINT = Buffer.from('f');
/** Scripts that concern two partitions. A burst of calls ends before one, so that other calls can come before it. */
const KEY_SCRIPTS = [
  'publish',
  'apply_outbox',
  'unmark_topics',
  'put_trigger',
  'receive_trigger',
  'remove_trigger',
];
/** The maximum of an outbox in each process. The second process soon refuses publications. */
const MAX_OUTBOX_BYTES = [PUBLISH_LIMITS.maxOutboxBytes, 150];

const running = new AbortController().signal;
const log = createLog('silent', {});

/** By how much the clock of another Redis may be behind: less than the minute by which outbox numbers go ahead. */
const BEHIND_MS = 50_000;
/** After each replication, the clock for outbox numbers goes forward by this time, so lost numbers are much higher. */
const PASS_MS = 60_000;

/** What a replica has of a partition, and what was known then. */
interface Replica {
  dumps: Awaited<ReturnType<typeof dump>>;
  known: Known;
  fired: ReadonlyMap<number, number>;
  clockMs: number;
}

/**
 * Two processes of a bus with several partitions, and its model. Each method is a step: it starts a task of a process,
 * or lets calls to Redis through. The arguments choose among what there is.
 */
export class CrossingScene {
  /** What was done so far. */
  readonly did: string[] = [];
  readonly #partitions: Partitions;
  readonly #gate = new Gate({
    observe: (...seen) => observe(this.#model, this.#trigger, ...seen),
    confirm: (partition) => this.#replicateAndPass(partition),
  });
  readonly #processes: Process[];
  readonly #topics: string[];
  readonly #tokens: string[];
  /**
   * A join and its client. No worker counts its events, so its queue must have them all, like the queue of a
   * subscriber.
   */
  readonly #join: string;
  readonly #client: string;
  readonly #model: Crossing;
  readonly #trigger = new MovingTrigger(CLIENT);
  /** The tasks that change the trigger or fire it. */
  readonly #triggering = new WeakSet<Task>();
  #tasks: Task[] = [];
  readonly #errors: unknown[] = [];
  #changes: { task: Task; change: Change; isDone: () => boolean }[] = [];
  /** The publications without an answer so far. */
  #unanswered: Publication[] = [];
  #count = 0;
  readonly #replicas: Replica[] = [];
  /** By how much the clock of each partition's Redis is later than the time here, for the numbers of outbox entries. */
  readonly #clockMs: number[] = [];
  readonly #behindMs: number[] = [];

  private constructor(partitions: Partitions) {
    this.#partitions = partitions;
    this.#processes = MAX_OUTBOX_BYTES.map((bytes) => new Process(partitions, this.#gate, bytes, log));
    this.#topics = [nameIn(partitions, 0, 'widgets'), nameIn(partitions, 1, 'gadgets')];
    const stems: [number, string][] = [
      [0, 'alice'],
      [1, 'bob'],
      [1, 'carol'],
      [2, 'dave'],
    ];
    this.#tokens = stems.map(([index, stem]) => nameIn(partitions, index, stem));
    this.#client = nameIn(partitions, 2, 'mill');
    this.#join = joinToken('order', this.#client);
    this.#model = new Crossing([...this.#tokens, this.#join], this.#topics, partitions);
  }

  /** Returns a scene in which there is a trigger. */
  static async begin(partitions: Partitions): Promise<CrossingScene> {
    const scene = new CrossingScene(partitions);
    await beginBus(partitions);
    await scene.#trigger.put({ partitions, confirmed: partitions }, scene.#topics[0] ?? '', false);
    for (const partition of partitions.all) await scene.#beginAnew(partition);
    return scene;
  }

  async subscribe(n: number, first: boolean, second: boolean, process: number): Promise<void> {
    const token = pick(this.#tokens, n) ?? '';
    const topics = this.#topics.filter((_, index) => [first, second][index]);
    const target = (each: string, topic: string) => (each === token ? topics.includes(topic) : undefined);
    const wanted = { topics, callback: `https://${token}.example/`, uuid: 'u', max_events: 3, ordered: true };
    await this.#change(`subscribe ${token} to ${topics}`, target, async () => {
      assert.equal(await this.#process(process).subscriptions.subscribe(token, wanted), 'ok');
    });
  }

  async putJoin(first: boolean, second: boolean, process: number): Promise<void> {
    const sources = this.#topics.filter((_, index) => [first, second][index] || !(first || second));
    const target = (each: string, topic: string) =>
      each === this.#join ? sources.includes(topic) : undefined;
    for (const topic of this.#topics) if (!sources.includes(topic)) this.#model.drop(this.#join, topic);
    const rules: JoinRules = {
      sources: sources.map((topic) => ({ topic, count: 1 })),
      ...{ by: 'url', then: { topic: 'ready', type: 'noop' }, within: 60_000, on_expiry: null },
    };
    await this.#change(`join ${sources}`, target, async () => {
      const { outcome } = await this.#process(process).joins.put(this.#client, 'order', rules);
      assert.match(outcome, /^(created|changed)$/);
    });
  }

  async endJoin(process: number): Promise<void> {
    await this.#leave(this.#join, process);
  }

  async unsubscribe(n: number, m: number, process: number): Promise<void> {
    const [token, topic] = [pick(this.#tokens, n) ?? '', pick(this.#topics, m) ?? ''];
    const target = (one: string, other: string) => (one === token && other === topic ? false : undefined);
    await this.#change(`unsubscribe ${token} from ${topic}`, target, () =>
      this.#process(process).subscriptions.unsubscribe(token, topic),
    );
  }

  async leave(n: number, process: number): Promise<void> {
    await this.#leave(pick(this.#tokens, n) ?? '', process);
  }

  async #leave(token: string, process: number): Promise<void> {
    const target = (each: string) => (each === token ? false : undefined);
    this.#model.drop(token);
    await this.#change(`remove ${token}`, target, () => this.#process(process).subscribers.remove(token));
  }

  async removeTopic(n: number, process: number): Promise<void> {
    const topic = pick(this.#topics, n) ?? '';
    // A topic remains a source of joins when it is removed.
    const target = (token: string, each: string) =>
      each === topic && token !== this.#join ? false : undefined;
    await this.#change(`remove ${topic}`, target, () => this.#process(process).topics.remove(topic));
  }

  async #change(what: string, target: Change['target'], run: () => Promise<unknown>): Promise<void> {
    const change = this.#model.begin(target);
    let isDone = false;
    const task = await this.#start(what, async () => {
      await run();
      isDone = true;
    });
    this.#changes.push({ task, change, isDone: () => isDone });
  }

  async publish(n: number, count: number, process: number): Promise<void> {
    const events = this.#events(count);
    const digest = String(events[0]).padEnd(22, '-');
    const topic = pick(this.#topics, n) ?? '';
    const idempotency = { digest, fingerprint: FINGERPRINT };
    await this.#publish({ topic, client: CLIENT, events, idempotency }, process);
  }

  /** Publishes once more what was published without an answer. */
  async repeat(n: number, process: number): Promise<void> {
    const publication = pick(this.#unanswered, n);
    if (publication) await this.#publish(publication, process);
  }

  async #publish(publication: Publication, process: number): Promise<void> {
    this.#unanswered.push(publication);
    await this.#start(`publish ${publication.events} to ${publication.topic}`, async () => {
      const outcome = await this.#process(process).publisher.publish(publication);
      assert.match(outcome, /^(accepted|repeated|outbox_full)$/);
      this.#unanswered = this.#unanswered.filter((each) => each !== publication);
    });
  }

  /** Publishes events that are due at once, and some that are due in a moment. */
  async delay(n: number, now: number, later: number, process: number): Promise<void> {
    const topic = pick(this.#topics, n) ?? '';
    const partition = this.#process(process).confirmed.ofTopic(topic);
    const events = this.#events(now + later).map((id, index) => ({
      id,
      text: id,
      ...(index >= now && { delay: 1 }),
    }));
    await this.#start(`delay ${events.map(({ id }) => id)} of ${topic}`, async () => {
      const publications = [{ topic, client: CLIENT, events }];
      await partition.run('delay', { uidSeed: uidSeed(), ...DELAY_LIMITS, publications });
    });
  }

  async publishDelayed(n: number, process: number): Promise<void> {
    const { partitions, maxOutboxBytes } = this.#process(process);
    const partition = pick(partitions.all, n) as Partition;
    await this.#start(`publish delayed events of ${partition.index}`, async () => {
      await partition.run('publish_delayed', { uidSeed: uidSeed(), firstClient: 0, maxOutboxBytes });
    });
  }

  /**
   * Gives the trigger a topic, unless another task concerns it: only if a process stands still in the middle of a move
   * while others go on and move the trigger again, two triggers may be left.
   */
  async putTrigger(n: number, isPaused: boolean, process: number): Promise<void> {
    const isBusy = (task: Task | undefined) => task && this.#triggering.has(task);
    if (this.#tasks.some((each) => isBusy(each) && !isOver({ task: each }))) return;
    if (this.#gate.waiting.some(({ task }) => isBusy(task))) return;
    const topic = pick(this.#topics, n) ?? '';
    const of = this.#process(process);
    const what = `put the trigger to ${topic}${isPaused ? ', paused' : ''}`;
    this.#triggering.add(await this.#start(what, () => this.#trigger.put(of, topic, isPaused)));
  }

  async fire(n: number, process: number): Promise<void> {
    const of = this.#process(process);
    const partition = pick(of.partitions.all, n) as Partition;
    const what = `fire in ${partition.index}`;
    this.#triggering.add(await this.#start(what, () => this.#trigger.work(of, partition)));
  }

  /** Runs a job of an outbox, if there is one. If Redis is away, the job stays with its worker until a scrub. */
  async job(n: number, process: number): Promise<void> {
    const { partitions, outbox } = this.#process(process);
    const partition = pick(partitions.all, n) as Partition;
    const queue = new Queue(partition, 'aux', QUEUE);
    const run = outboxJob({ partition, partitions, outbox, leaseMs: LEASE_MS, log, onFull: () => {} });
    await makeDue(this.#partitions.all[partition.index] as Partition);
    const worker = `w${++this.#count}`;
    await this.#start(`job of ${partition.index}`, async () => {
      const [grant] = (await queue.acquire([worker])).grants;
      if (!grant) return;
      const settlement = await run(grant, running);
      if (settlement.end === 'retry') await queue.nack(grant, { ...settlement.retry, delayMs: 0 });
      else assert.equal(settlement.end, 'settled');
    });
  }

  /** Takes the jobs from all workers of a partition, as if these were dead. */
  async scrub(n: number): Promise<void> {
    const partition = pick(this.#partitions.all, n) as Partition;
    this.did.push(`scrub ${partition.index}`);
    await partition.run('scrub', { leaseMs: -1, hasOthers: true });
  }

  /** Corrects the marks that name a partition, as a sweep does. */
  async refresh(n: number, process: number): Promise<void> {
    const { partitions, marks } = this.#process(process);
    const partition = pick(partitions.all, n) as Partition;
    await this.#start(`refresh ${partition.index}`, () => marks.refresh(partition, this.#topics));
  }

  async replicate(n: number): Promise<void> {
    const partition = pick(this.#partitions.all, n) as Partition;
    this.did.push(`replicate ${partition.index}`);
    await this.#replicateAndPass(partition);
  }

  async #replicateAndPass(partition: Partition): Promise<void> {
    await this.#replicate(partition);
    await this.#setClock(partition, this.#clockOf(partition) + PASS_MS);
  }

  async #replicate(partition: Partition): Promise<void> {
    const [known, fired] = [this.#model.known(), this.#trigger.fired()];
    const clockMs = this.#clockOf(partition);
    this.#replicas[partition.index] = { dumps: await dump(partition), known, fired, clockMs };
  }

  #clockOf({ index }: Partition): number {
    return this.#clockMs[index] ?? 0;
  }

  /** Numbers outbox entries as if the clock was so much later than the time here. Other times stay. */
  async #setClock(partition: Partition, ms: number): Promise<void> {
    const { redis, keys, index } = partition;
    await redis.hincrby(keys.outboxes_sent(), 'ahead', 1000 * (ms - this.#clockOf(partition)));
    this.#clockMs[index] = ms;
  }

  /** Workers scrub a new master, and it is replicated, before it can fail too. */
  async #beginAnew(partition: Partition): Promise<void> {
    await partition.run('scrub', { leaseMs: LEASE_MS, hasOthers: true });
    await this.#replicate(partition);
  }

  /**
   * Makes another Redis take over for each of these partitions, one after the other. Its clock may be behind. It lacks
   * what was done since it was replicated, but no confirmed call. Calls that were given up do not reach it.
   */
  async failOver(indexes: number[], isBehind: boolean): Promise<void> {
    for (const index of indexes) {
      const partition = this.#partitions.all[index] as Partition;
      const { dumps, known, fired, clockMs } = this.#replicas[index] as Replica;
      this.did.push(`fail over ${index}${isBehind ? ', with a clock that is behind' : ''}`);
      this.#gate.forget(partition);
      await restore(partition, dumps);
      const behindMs = isBehind ? BEHIND_MS : 0;
      const nowMs = this.#clockOf(partition) + (this.#behindMs[index] ?? 0);
      this.#clockMs[index] = clockMs;
      await this.#setClock(partition, nowMs - behindMs);
      this.#behindMs[index] = behindMs;
      this.#model.failOver(index, known);
      this.#trigger.failOver(index, fired);
      await this.#beginAnew(partition);
    }
    await this.#assertConsistent();
  }

  /** Starts a task. It may fail because Redis is away, and for no other reason. */
  async #start(what: string, run: () => Promise<void>): Promise<Task> {
    this.did.push(what);
    const task = await this.#gate.start(async () => {
      await run().catch((error) => {
        if (!(error instanceof StorageUnavailable)) this.#errors.push(error);
      });
    });
    this.#tasks.push(task);
    return task;
  }

  /** Lets up to `max` calls of one task through, up to the next one that concerns two partitions. */
  async let(n: number, max: number): Promise<void> {
    let call = pick(this.#gate.waiting, n);
    for (let left = max; call && left > 0; left--) {
      const { task } = call;
      await this.#let(call, 'ok');
      call =
        task && this.#gate.waiting.find((each) => each.task === task && !KEY_SCRIPTS.includes(each.what));
    }
    await this.#assertConsistent();
  }

  /** Lets a call fail, one that concerns two partitions if there is any. */
  async fail(n: number, fate: Fate): Promise<void> {
    const key = this.#gate.waiting.filter(({ what }) => KEY_SCRIPTS.includes(what));
    const call = pick(key, n) ?? pick(this.#gate.waiting, n);
    // Later, the trigger could be elsewhere, and would be made once more.
    const isMove = call?.what === 'receive_trigger';
    if (call) await this.#let(call, isMove && fate === 'late' ? 'lost' : fate);
    await this.#assertConsistent();
  }

  async #let(call: Gate['waiting'][number], fate: Fate): Promise<void> {
    this.did.push(`  ${call.task ? fate : 'at last'}: ${call.what} in ${call.partition.index}`);
    await this.#gate.let(call, fate);
    if (this.#errors.length > 0) throw this.#errors[0];
    const [over, others] = [this.#changes.filter(isOver), this.#changes.filter((each) => !isOver(each))];
    for (const { change, isDone } of over) this.#model.end(change, isDone());
    this.#changes = others;
  }

  async #assertConsistent(): Promise<void> {
    for (const partition of this.#partitions.all) await assertConsistent(partition);
    for (const [token, topic] of this.#model.subscriptions) await this.#assertSubscribed(token, topic);
  }

  /** Asserts that a subscription is stored, and that its topic's home knows of it. */
  async #assertSubscribed(token: string, topic: string): Promise<void> {
    const { index, redis, keys } = this.#partitions.ofSubscriber(token);
    const home = this.#partitions.ofTopic(topic);
    const [isStored, marks] = await Promise.all([
      redis.sismember(keys.topic_subscribers(topic), token),
      home.redis.hget(home.keys.topic(topic), 'elsewhere'),
    ]);
    assert.equal(isStored, 1, `${token} is subscribed to ${topic}`);
    assert.ok(index === home.index || marksIn(marks).has(index), `${topic} is marked for ${token}`);
  }

  /**
   * Lets all tasks end, and all outboxes be emptied. Asserts that all is delivered, and that nothing is left behind.
   */
  async end(): Promise<void> {
    await this.#finish();
    await this.#assertConsistent();
    await this.#trigger.end(this.#partitions);
    for (const { index } of this.#partitions.all) await this.scrub(index);
    while (await this.#hasJobs())
      for (const { index } of this.#partitions.all) {
        await this.job(index, 0);
        await this.#finish();
      }
    for (const { index } of this.#partitions.all) await this.refresh(index, 0);
    await this.#finish();
    for (const token of [...this.#tokens, this.#join])
      this.#model.assertGot(token, await this.#queued(token));
    await assertPartitionsConsistent(this.#partitions);
    for (const partition of this.#partitions.all) await assertNothingToSweep(partition);
  }

  async #finish(): Promise<void> {
    while (this.#gate.waiting.length > 0 || this.#tasks.some((task) => !task.isOver)) {
      const [call] = this.#gate.waiting;
      // The task of a busy outbox rests for some ms.
      await (call ? this.#let(call, 'ok') : sleep(1));
    }
    this.#tasks = [];
  }

  async #hasJobs(): Promise<boolean> {
    const counts = await this.#partitions.ask((redis, keys) => redis.scard(keys.jobs_index('aux')));
    return counts.some((count) => count > 0);
  }

  /** Returns the events in the queue of a subscriber. */
  async #queued(token: string): Promise<string[]> {
    const { redis, keys } = this.#partitions.ofSubscriber(token);
    const bids = await redis.zrange(keys.batches_queued(token), '0', '-1');
    const events = await Promise.all(bids.map((bid) => redis.lrange(keys.batch(bid), 3, -1)));
    // The events of triggers are JSON.
    return events.flat().map((text) => (text.startsWith('{') ? nameOf(JSON.parse(text)) : text));
  }

  #process(n: number): Process {
    return pick(this.#processes, n) as Process;
  }

  #events(count: number): string[] {
    return Array.from({ length: count }, () => `e${++this.#count}`);
  }
}
