import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { publishingParts } from '../../harness/publishing.ts';
import { DELAY_LIMITS, PUBLISH_LIMITS } from '../../harness/scripts/bus_inputs.ts';
import { assertPartitionsConsistent, nameIn } from '../../harness/scripts/crossing.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { assertNothingToSweep } from '../../harness/scripts/sweep.ts';
import { DEFAULTS, subscribersIn } from '../../harness/subscriptions.ts';
import { Queue } from '../../src/delivering/queue.ts';
import { StorageUnavailable } from '../../src/errors.ts';
import type { JoinRules } from '../../src/flow/joins/join_rules.ts';
import { Joins } from '../../src/flow/joins/joins.ts';
import { joinToken, uidSeed } from '../../src/ids.ts';
import { createLog } from '../../src/log.ts';
import { outboxJob } from '../../src/maintenance/outbox_job.ts';
import { promoteDue } from '../../src/maintenance/promoting.ts';
import { Outbox } from '../../src/publishing/outbox.ts';
import type { Publication } from '../../src/publishing/publication.ts';
import { Publisher } from '../../src/publishing/publisher.ts';
import type { Arguments, Reply, ScriptName } from '../../src/store/contracts.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Partitions } from '../../src/store/partitions.ts';
import type { Subscribers } from '../../src/subscribing/subscriber.ts';
import { Subscriptions } from '../../src/subscribing/subscription.ts';
import { Topics } from '../../src/subscribing/topic.ts';
import { marksIn, TopicMarks } from '../../src/subscribing/topic_marks.ts';
import { type Change, Crossing } from './crossing.ts';
import { type Fate, Gate, type Task } from './gate.ts';
import { MovingTrigger } from './moving_trigger.ts';
import { pick } from './step.ts';

const LEASE_MS = 30_000;
const QUEUE = { laneLimit: 10, laneLimitMax: 100, leaseMs: LEASE_MS, deliveryLog: 0 };
const JOIN_LIMITS = { maxJoins: 10, maxClientJoins: 10, maxJoinKeys: 10, maxJoinBytes: 1_000_000 };
const CLIENT = 'shop';
const FINGERPRINT = Buffer.from('f');
/** Scripts that concern two partitions. A burst of calls ends before one, so that other calls can come before it. */
const KEY_SCRIPTS = ['apply_outbox', 'unmark_topics', 'put_trigger', 'receive_trigger', 'remove_trigger'];
/** The maximum of an outbox in each process. The second process soon refuses publications. */
const MAX_OUTBOX_BYTES = [PUBLISH_LIMITS.maxOutboxBytes, 150];

const running = new AbortController().signal;
const log = createLog('silent', {});
const figures = { published: () => {}, added: () => {} };

/** A process of the bus. */
class Process {
  readonly partitions: Partitions;
  readonly marks: TopicMarks;
  readonly outbox: Outbox;
  readonly publisher: Publisher;
  readonly topics: Topics;
  readonly subscribers: Subscribers;
  readonly subscriptions: Subscriptions;
  readonly joins: Joins;
  readonly maxOutboxBytes: number;

  constructor(partitions: Partitions, maxOutboxBytes: number) {
    this.partitions = partitions;
    this.maxOutboxBytes = maxOutboxBytes;
    this.marks = new TopicMarks(partitions);
    this.outbox = new Outbox({
      confirmed: partitions,
      figures,
      marks: this.marks,
      limits: PUBLISH_LIMITS,
      log,
    });
    const limits = { ...PUBLISH_LIMITS, maxOutboxBytes };
    this.publisher = new Publisher(publishingParts(partitions, { limits }));
    this.topics = new Topics(partitions, this.outbox);
    this.joins = new Joins(partitions, { ...PUBLISH_LIMITS, ...JOIN_LIMITS });
    this.subscribers = subscribersIn(partitions, this.outbox);
    this.subscriptions = new Subscriptions(partitions, DEFAULTS, this.outbox);
  }
}

/**
 * Two processes of a bus with several partitions, and its model. Each method is a step: it starts a task of a process,
 * or lets calls to Redis through. The arguments choose among what there is.
 */
export class CrossingScene {
  /** What was done so far. */
  readonly did: string[] = [];
  readonly #partitions: Partitions;
  readonly #gate = new Gate((...seen) => this.#observe(...seen));
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

  private constructor(partitions: Partitions) {
    this.#partitions = partitions;
    const held = this.#gate.behind(partitions);
    this.#processes = MAX_OUTBOX_BYTES.map((bytes) => new Process(held, bytes));
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
    this.#model = new Crossing([...this.#tokens, this.#join], this.#topics);
  }

  /** Returns a scene in which there is a trigger. */
  static async begin(partitions: Partitions): Promise<CrossingScene> {
    const scene = new CrossingScene(partitions);
    await scene.#trigger.put(partitions, scene.#topics[0] ?? '', false);
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
    const partition = this.#process(process).partitions.ofTopic(topic);
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
    const { partitions } = this.#process(process);
    const what = `put the trigger to ${topic}${isPaused ? ', paused' : ''}`;
    this.#triggering.add(await this.#start(what, () => this.#trigger.put(partitions, topic, isPaused)));
  }

  async fire(n: number, process: number): Promise<void> {
    const { partitions } = this.#process(process);
    const partition = pick(partitions.all, n) as Partition;
    const what = `fire in ${partition.index}`;
    this.#triggering.add(await this.#start(what, () => this.#trigger.work(partitions, partition)));
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

  /** Tells the model what Redis has accepted, in this order. */
  #observe<N extends ScriptName>(home: Partition, name: N, args: Arguments<N>, reply: Reply<N>): void {
    const seen = { name, args, reply } as {
      [M in ScriptName]: { name: M; args: Arguments<M>; reply: Reply<M> };
    }[ScriptName];
    if (seen.name === 'publish') {
      for (const [index, { topic, events }] of [...seen.args.publications].entries())
        if (seen.reply.outcomes[index] === 'accepted')
          this.#model.accept(home.index, topic, events as string[]);
    } else if (seen.name === 'delay') {
      const [{ topic, events } = assert.fail()] = seen.args.publications;
      const idsOf = (isDelayed: boolean) =>
        events.filter(({ delay }) => (delay !== undefined) === isDelayed).map(({ id }) => id);
      if (seen.reply.outcomes[0]?.outcome !== 'accepted') return;
      this.#model.accept(home.index, topic, idsOf(false));
      this.#model.delay(topic, idsOf(true));
    } else if (seen.name === 'publish_delayed') {
      for (const { topic, events } of seen.reply.published)
        this.#model.publishDelayed(home.index, topic, events);
    } else if (seen.name === 'fire_triggers') {
      const events = this.#trigger.noteFired(seen.args, seen.reply);
      for (const { topic } of seen.reply.published) this.#model.accept(home.index, topic, events);
    } else if (seen.name === 'remove_topic') {
      if (seen.reply.outcome === 'ok')
        assert.equal(this.#model.dropDelayed(seen.args.topic), seen.reply.delayed);
    }
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
    return events.flat().map((text) => (text.startsWith('{') ? JSON.parse(text).id : text));
  }

  #process(n: number): Process {
    return pick(this.#processes, n) as Process;
  }

  #events(count: number): string[] {
    return Array.from({ length: count }, () => `e${++this.#count}`);
  }
}

function isOver({ task }: { task: Task }): boolean {
  return task.isOver && task.late === 0;
}

/** Makes the jobs of entries that are set aside due. */
async function makeDue(partition: Partition): Promise<void> {
  const { redis, keys } = partition;
  for (const job of await redis.zrangeBuffer(keys.jobs_scheduled('aux'), '0', '-1'))
    await redis.zadd(keys.jobs_scheduled('aux'), 0, job);
  await promoteDue(partition);
}
