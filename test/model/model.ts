import assert from 'node:assert/strict';
import type { Batch, Bulk, Ending, Failure, Hold } from './things.ts';
import { TopicsAndSubscribers } from './topics_and_subscribers.ts';

/** How long a worker holds a job without being heard of. The model's time passes only when a step says so. */
export const LEASE_MS = 250_000;
/** A delivery in flight for longer is slow. A pass of the model's time is longer, real time between steps is shorter. */
export const SLOW_MS = 50_000;
/** How many deliveries to one subscriber may be in flight, unless it asks for another number. */
export const LANE_LIMIT = 2;
const MAX_ATTEMPTS_KEPT = 20;

/** The numbers of events in a batch that became a dead letter, and in one that was deleted. */
interface Burial {
  buried: number;
  dropped: number;
}

/**
 * The data that the bus must hold after any calls: plain data, with a method for each call. Here is what becomes of
 * batches: deliveries, dead letters and ends.
 */
export class Model extends TopicsAndSubscribers {
  letters: Batch[] = [];
  /** The time of each worker's last sign of life. */
  readonly workers = new Map<string, number>();
  /**
   * Subscribers without `ordered` whose batch was cut. For these, `place` must find where the bus has put the new
   * batch.
   */
  readonly unplaced = new Set<string>();
  /** The names of batches that were cut. Their parts have other names. */
  readonly cut = new Set<string>();
  /** The workers that have asked for deliveries. */
  readonly mainWorkers = new Set<string>();
  /** The jobs of `aux`. */
  readonly aux = new Set<string>();
  /** The bulk that each owner began last. */
  readonly bulks = new Map<string, Bulk>();
  readonly endings = new Map<string, Map<string, Ending>>();

  /**
   * Gives new batches the names that the bus has given them. A batch of the model and one of the bus are the same if
   * they begin with the same event.
   */
  adopt(named: Readonly<Record<string, { token: string; events: string[] }>>): void {
    const nameless = this.batches.filter(({ name }) => name === undefined);
    if (nameless.length === 0) return;
    const names = new Map(
      Object.entries(named).map(([name, { token, events }]) => [`${token} ${events[0]}`, name]),
    );
    for (const batch of nameless) batch.name = names.get(`${batch.token} ${batch.events[0]}`);
  }

  /**
   * Returns the batch of this name. `events` are those that a worker got of it. A first delivery has no more events
   * than the subscriber's max. If a batch has more, the bus makes a new batch of the first ones, and the others stay in
   * the old batch, behind the new one and under a new name.
   */
  cutTo(name: string, token: string, events: string[]): Batch {
    const whole =
      this.batches.find((each) => each.token === token && each.events[0] === events[0]) ?? this.find(name);
    const { max = Number.POSITIVE_INFINITY, ordered } = this.subscribers.get(token) ?? {};
    if (whole.attempts > 0 || whole.events.length <= max) {
      whole.name ??= name;
      return this.find(name);
    }
    const head = { ...whole, name, history: [], open: false, events: whole.events.splice(0, max) };
    if (whole.name) this.cut.add(whole.name);
    Object.assign(whole, { name: undefined, open: false });
    this.batches.splice(this.batches.indexOf(whole), 0, head);
    if (!ordered) this.unplaced.add(token);
    return head;
  }

  /** Puts the batches of `unplaced` subscribers into the order in which the bus has them. */
  place(queued: Readonly<Record<string, string[]>>): void {
    for (const token of this.unplaced) {
      const place = ({ name = '' }: Batch) => queued[token]?.indexOf(name) ?? -1;
      const placed = this.batches
        .filter((each) => each.token === token)
        .sort((one, other) => place(one) - place(other));
      this.batches = this.batches.map((each) => (each.token === token ? (placed.shift() ?? each) : each));
    }
    this.unplaced.clear();
  }

  /** A worker got this job. */
  take(worker: string, hold: Hold): void {
    this.holds.set(worker, hold);
    if (typeof hold.work === 'string') return;
    hold.work.open = false;
    hold.work.attempts++;
  }

  /** Notes slow deliveries, before jobs are given out: they join the slow share, and make their subscribers slow. */
  noticeSlow(): void {
    for (const hold of this.#slow()) {
      hold.share ??= 'slow';
      const subscriber = this.subscribers.get(this.tokenOf(hold) ?? '');
      if (subscriber) subscriber.slow = true;
    }
  }

  #slow(): Hold[] {
    const isSlow = (hold: Hold) => typeof hold.work !== 'string' && this.nowMs - hold.sinceMs > SLOW_MS;
    return [...this.holds.values()].filter(isSlow);
  }

  /** Ends the worker's delivery: the batch was taken. */
  ack(worker: string, tookLong: boolean): void {
    const { work, telling, inOrder } = this.#release(worker);
    if (typeof work === 'string') return void this.aux.delete(work);
    const subscriber = this.subscribers.get(work.token);
    if (subscriber) {
      const anySlow = this.#slow().some((hold) => this.tokenOf(hold) === work.token);
      const slow = tookLong || (subscriber.slow && anySlow);
      Object.assign(subscriber, { proven: true, slow, throttledUntilMs: undefined });
      subscriber.told += telling;
    }
    if (inOrder && !work.revived && !work.early) this.#noteOrder(work);
    this.end(work, 'received');
  }

  /** Asserts that a batch taken in order is younger than all batches that were taken in order before. */
  #noteOrder({ token, events, name }: Batch): void {
    const accepted = this.accepted.get(token) ?? [];
    const first = accepted.indexOf(events[0] ?? '');
    assert.ok(first > (this.takenInOrder.get(token) ?? -1), `${token} takes ${name} in order`);
    this.takenInOrder.set(token, first + events.length - 1);
  }

  /** Gives the worker's job back. */
  nack(worker: string, failure: Failure): void {
    const { work } = this.#release(worker);
    if (typeof work === 'string') return;
    this.#fail(work, failure);
    const subscriber = this.subscribers.get(work.token);
    const pauses = subscriber !== undefined && failure.pause;
    if (pauses) subscriber.pausedBy ??= 'callback_gone';
    if (pauses || failure.givenBack) work.attempts--;
  }

  /**
   * Makes a dead letter of the batch that a dead quarantine held. Returns the batch, if any, and what `bury` returns.
   */
  condemn(worker: string): { job?: string; token?: string } & Burial {
    this.workers.delete(worker);
    const work = this.holds.get(worker)?.work;
    if (work === undefined || typeof work === 'string') return { buried: 0, dropped: 0 };
    note(work, true);
    const { name = '', token } = work;
    const burial = this.bury(worker, { throttleMs: 0, noted: false, pause: false }, 'killed_worker');
    return { job: name, token, ...burial };
  }

  /** Makes a dead letter of the batch that a worker delivers, or ends it if its subscriber has left. */
  bury(worker: string, failure: Failure, reason = 'max_attempts'): Burial {
    const { work } = this.#release(worker);
    assert.ok(typeof work !== 'string');
    if (!this.subscribers.has(work.token)) {
      this.end(work, 'left');
      return { buried: 0, dropped: work.events.length };
    }
    this.#fail(work, failure);
    this.batches = this.batches.filter((each) => each !== work);
    this.letters.push(Object.assign(work, { reason }));
    return { buried: work.events.length, dropped: 0 };
  }

  /** Makes a dead letter of a batch that no worker delivers. */
  buryNow(batch: Batch): void {
    this.batches = this.batches.filter((each) => each !== batch);
    this.letters.push(Object.assign(batch, { reason: 'buried', open: false }));
    this.tryNow(batch.token);
  }

  #fail(batch: Batch, { throttleMs, noted }: Failure): void {
    if (noted) note(batch, false);
    const subscriber = this.subscribers.get(batch.token);
    if (!subscriber || throttleMs === 0) return;
    subscriber.throttledUntilMs = Math.max(subscriber.throttledUntilMs ?? 0, this.nowMs + throttleMs);
  }

  #release(worker: string): Hold {
    const hold = this.holds.get(worker) ?? assert.fail(`${worker} holds nothing`);
    this.holds.delete(worker);
    return hold;
  }

  /** Ends the hold of a subscriber after a failure. The subscriber is failing still. */
  tryNow(token: string): void {
    const subscriber = this.subscribers.get(token);
    if (subscriber?.throttledUntilMs !== undefined)
      subscriber.throttledUntilMs = Math.min(subscriber.throttledUntilMs, this.nowMs);
  }

  /**
   * Makes a batch of a test event. Returns false if there is no such subscriber. Its open batch may get younger events,
   * which are delivered before this one.
   */
  sendTest(token: string, event: string): boolean {
    if (!this.subscribers.has(token)) return false;
    this.accepted.set(token, [...(this.accepted.get(token) ?? []), event]);
    const closed = { attempts: 0, history: [], open: false, revived: true };
    this.batches.push({ name: undefined, token, events: [event], ...closed });
    return true;
  }

  revive(letter: Batch): void {
    this.letters = this.letters.filter((each) => each !== letter);
    this.batches.push(Object.assign(letter, { attempts: 0, revived: true }));
  }

  /** Ends a batch or dead letter. */
  end(batch: Batch, how: Ending): void {
    this.batches = this.batches.filter((each) => each !== batch);
    this.letters = this.letters.filter((each) => each !== batch);
    const endings = this.endings.get(batch.token) ?? new Map<string, Ending>();
    this.endings.set(batch.token, endings);
    for (const event of batch.events) {
      assert.ok(!endings.has(event), `${event} of ${batch.token} ends once`);
      endings.set(event, how);
    }
    const subscriber = this.subscribers.get(batch.token);
    const state = how === 'received' ? 'taken' : 'dropped';
    if (subscriber) this.records.set(batch.name ?? '', { token: batch.token, state });
    if (subscriber && how === 'dropped') subscriber.dropped += batch.events.length;
  }

  hear(workers: readonly string[]): void {
    for (const worker of workers) this.workers.set(worker, this.nowMs);
  }

  isDead(worker: string, leaseMs: number): boolean {
    return this.nowMs - (this.workers.get(worker) ?? Number.NEGATIVE_INFINITY) > leaseMs;
  }

  /** Returns true if the bus must accept a call of this worker under this lease. */
  isHeld(worker: string, lease: number, leaseMs = LEASE_MS): boolean {
    return this.holds.get(worker)?.lease === lease && !this.isDead(worker, leaseMs);
  }

  /** Returns how many workers died, and how many jobs of `main` and `aux` they held. */
  scrub(leaseMs: number): { workers: number; jobs: number[] } {
    this.noticeRun();
    let [main, aux] = [0, 0];
    for (const [worker, { work }] of [...this.holds]) {
      if (!this.isDead(worker, leaseMs)) continue;
      this.holds.delete(worker);
      if (typeof work === 'string') {
        aux++;
        continue;
      }
      main++;
      note(work, true);
    }
    const dead = [...this.workers.keys()].filter((worker) => this.isDead(worker, leaseMs));
    for (const worker of dead) this.workers.delete(worker);
    return { workers: dead.length, jobs: [main, aux] };
  }

  /** Returns true if two workers held the batch when they died. */
  isSuspect({ history }: Batch): boolean {
    return history.filter((death) => death).length >= 2;
  }

  /** Returns the name of the batch that a worker delivers. */
  nameOf(worker: string): string | undefined {
    const work = this.holds.get(worker)?.work;
    return typeof work === 'string' ? undefined : work?.name;
  }

  holderOf(work: Batch | string): string | undefined {
    return [...this.holds].find(([, hold]) => hold.work === work)?.[0];
  }

  find(name: string): Batch {
    return [...this.batches, ...this.letters].find((each) => each.name === name) ?? assert.fail(`no ${name}`);
  }
}

function note(batch: Batch, death: boolean): void {
  batch.history = [...batch.history, death].slice(-MAX_ATTEMPTS_KEPT);
}
