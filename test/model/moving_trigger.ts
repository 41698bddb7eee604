import assert from 'node:assert/strict';
import { DueTriggers } from '../../src/flow/triggers/due_triggers.ts';
import { finishMove } from '../../src/flow/triggers/moving_trigger.ts';
import { type Timing, timesOf } from '../../src/flow/triggers/schedule.ts';
import { readAll } from '../../src/flow/triggers/stored_trigger.ts';
import { reportOf } from '../../src/flow/triggers/trigger_report.ts';
import { Triggers } from '../../src/flow/triggers/triggers.ts';
import { createLog } from '../../src/log.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import type { Arguments, Reply } from '../../src/store/contracts.ts';
import type { Partition } from '../../src/store/partition.ts';
import type { Partitions } from '../../src/store/partitions.ts';

const ROOM = 1_000_000;
const LIMITS = {
  ...{ maxTriggers: ROOM, maxClientTriggers: ROOM, maxClientTriggerBytes: ROOM, maxOutboxBytes: ROOM },
  ...{ maxTopics: ROOM, maxClientTopics: ROOM, publishRate: 0, publishBytes: 0, publishBurstMs: 10_000 },
};
const EVERY_MS = 30;
const TIMING: Timing = { schedule: { every: EVERY_MS }, start: 0, end: null, offset: 0 };
/** Two due times have passed when the trigger is made. */
const EARLIER_MS = 60;
const PAUSED = 'https://paused.example/';

/** The partitions as a process calls them. Some calls wait until replicas have confirmed them. */
interface Of {
  partitions: Partitions;
  confirmed: Partitions;
}

/** A trigger whose topic changes, and what is known of it. Its calls may be cut off anywhere. */
export class MovingTrigger {
  readonly #name: { client: string; name: string };
  /** The due times for which it has fired, each with the partition in which that was. */
  readonly #fired = new Map<number, number>();

  constructor(client: string) {
    this.#name = { client, name: 'often' };
  }

  /** Gives the trigger a topic, and pauses or resumes it. Makes it if there is none; it is due at once then. */
  async put({ partitions, confirmed }: Of, topic: string, isPaused: boolean): Promise<void> {
    const event = { type: 'noop', url: isPaused ? PAUSED : 'https://runs.example/' } as const;
    const definition = { topic, event, catchUp: 'all', timing: TIMING } as const;
    const outcome = await new Triggers(partitions, LIMITS, confirmed).put(
      this.#name,
      { isFixed: true, topic },
      (stored, nowMs) => ({
        definition,
        isPaused,
        ...(!stored && { nextAt: timesOf(TIMING).next(nowMs - EARLIER_MS) as number }),
      }),
    );
    assert.match(outcome, /^(created|changed)$/);
  }

  /** Fires what is due in a partition, and brings the trigger to its topic, as a worker does. */
  async work({ partitions, confirmed }: Of, partition: Partition): Promise<void> {
    await new DueTriggers({
      ...{ partition, partitions, confirmed, limits: LIMITS },
      guard: { check: () => undefined },
      recorder: new Recorder({ increment() {} }),
      log: createLog('silent', {}),
      onFull() {},
    }).publish();
  }

  /** Returns the ids of the events that a call has published. */
  noteFired(
    index: number,
    { firings }: Arguments<'fire_triggers'>,
    { outcomes }: Reply<'fire_triggers'>,
  ): string[] {
    const times = firings.flatMap((each, i) => each.times.slice(0, outcomes[i]?.fired));
    for (const time of times) {
      assert.ok(!this.#fired.has(time), `the trigger fires at ${time} once`);
      this.#fired.set(time, index);
    }
    return times.map((time) => `${this.#name.name}@${time}`);
  }

  fired(): ReadonlyMap<number, number> {
    return new Map(this.#fired);
  }

  /** Notes that a partition is as it was when the trigger had fired at these times. It may fire again at later ones. */
  failOver(partition: number, then: ReadonlyMap<number, number>): void {
    for (const [time, index] of this.#fired)
      if (index === partition && !then.has(time)) this.#fired.delete(time);
  }

  /** Ends a move that was cut off. Asserts that the trigger is in one partition, with its counts. */
  async end(partitions: Partitions): Promise<void> {
    for (const partition of partitions.all) await finishMove(this.#name, partition, partitions, partitions);
    const found = await partitions.ask((redis, keys) => readAll(redis, keys, [this.#name]));
    const there = found.flatMap(([stored], index) => (stored ? [{ stored, index }] : []));
    assert.equal(there.length, 1, 'the trigger is in one partition');
    for (const { stored, index } of there) {
      const { topic, event, fired, missed, paused } = reportOf(stored);
      const last = Number(stored.state.next_at) - EVERY_MS;
      for (let time = Math.min(...this.#fired.keys()); time <= last; time += EVERY_MS)
        assert.ok(this.#fired.has(time), `the trigger has fired at ${time}`);
      assert.equal(index, partitions.ofTopic(topic).index, 'the trigger is where its topic is');
      assert.deepEqual([fired, missed], [this.#fired.size, 0], 'the counts of the trigger');
      assert.equal(paused, event.url === PAUSED, 'the trigger is paused as it was put');
    }
  }
}
