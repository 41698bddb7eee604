import assert from 'node:assert/strict';
import { beforeEach } from 'node:test';
import { TestStore } from '../../../harness/redis/store.ts';
import { EVERY_SECOND } from '../../../harness/scripts/triggers.ts';
import { reportOf } from '../../../src/flow/triggers/trigger_report.ts';
import { Triggers, type Wanted } from '../../../src/flow/triggers/triggers.ts';
import type { ScriptName } from '../../../src/store/contracts.ts';
import type { Partition } from '../../../src/store/partition.ts';
import { Partitions } from '../../../src/store/partitions.ts';

export const ROOM = 1_000_000;
export const LIMITS = {
  ...{ maxTriggers: ROOM, maxClientTriggers: ROOM, maxClientTriggerBytes: ROOM },
  ...{ maxTopics: ROOM, maxClientTopics: ROOM },
};
const EVENT = { type: 'noop', url: 'https://shop.example.com/' } as const;
export const TRIGGER = { client: 'shop', name: 'daily' };
/** A day ahead: the trigger fires only where a test says so. */
export const AHEAD = Date.now() + 86_400_000;

export const CUT = new Error('the process was killed');

export const wanted = (topic: string, changes: Partial<Wanted> = {}): Wanted => ({
  definition: { topic, event: EVENT, catchUp: 'latest', timing: EVERY_SECOND },
  isPaused: false,
  ...changes,
});

/** A bus with three partitions on one Redis, which is empty before each test, and a trigger that moves among them. */
export class TriggerScene {
  readonly redis = new TestStore();
  partitions!: Partitions;
  /** A topic of each partition. */
  topics: string[] = [];

  constructor() {
    beforeEach(async () => {
      await this.redis.flush();
      this.partitions = Partitions.on(this.redis.store.redis, { partitions: 3 });
      const names = Array.from({ length: 100 }, (_, i) => `topic_${i}`);
      this.topics = this.partitions.all.map(
        (each) => names.find((name) => this.partitions.ofTopic(name) === each) ?? assert.fail(),
      );
    });
  }

  get triggers(): Triggers {
    return new Triggers(this.partitions, LIMITS);
  }

  /** Stores the trigger with the topic of the partition at `place`. */
  put(place: number, changes: Partial<Wanted> = {}, isFixed = true) {
    const topic = this.topics[place] as string;
    return this.triggers.put(TRIGGER, { isFixed, topic }, () => wanted(topic, changes));
  }

  async found() {
    const found = await this.triggers.find(TRIGGER);
    assert.ok(found);
    return { ...reportOf(found.stored), text: found.stored.text };
  }

  /** Returns when the trigger is due, in each partition that has it. */
  async dueTimes(): Promise<[number, string][]> {
    const scores = this.partitions.all.map(({ redis, keys }) =>
      redis.zscore(keys.triggers_due(), 'daily shop'),
    );
    return [...(await Promise.all(scores)).entries()].flatMap(([place, score]) =>
      score === null ? [] : [[place, score]],
    );
  }

  /**
   * Makes all script calls of the partitions fail, except the next `calls`, as if the process was killed behind these.
   * Returns a function that ends this.
   */
  cutOff(calls: number, onCut: () => void): () => void {
    let left = calls;
    for (const partition of this.partitions.all) {
      const run = partition.run.bind(partition);
      partition.run = (name, args) => {
        if (left-- > 0) return run(name, args);
        onCut();
        throw CUT;
      };
    }
    return () => {
      for (const partition of this.partitions.all) delete (partition as Partial<Partition>).run;
    };
  }
}

/** Calls `action` once, before the partition next runs this script. */
export function beforeScript(partition: Partition, script: ScriptName, action: () => Promise<unknown>): void {
  const run = partition.run.bind(partition);
  partition.run = async (name, args) => {
    if (name === script) {
      partition.run = run;
      await action();
    }
    return run(name, args);
  };
}
