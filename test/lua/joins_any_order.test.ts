import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TestStore } from '../../harness/redis/store.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import type { Published } from '../../harness/scripts/bus_inputs.ts';
import { assertConsistent } from '../../harness/scripts/invariants.ts';
import { CLIENT, JoinCalls, joinEvent, type Rules } from '../../harness/scripts/join_calls.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { readOpenKeys } from '../../src/flow/joins/join_report.ts';
import { joinToken } from '../../src/ids.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);
const joins = new JoinCalls(bus);
const TOKEN = joinToken('order', CLIENT);
const TOPICS = ['a', 'b', 'c'];
const KEYS = ['x', 'y', 'z'];

type Sent = [topic: string, key: string];

/**
 * One worker's counting of a batch: the number of events in each call, and how often the call arrives. Then the worker
 * may die, and its join may be put again.
 */
interface Work {
  slices: { size: number; times: number }[];
  dies: boolean;
  puts: boolean;
}

type Step = { publish: Sent[] } | Work;

const sent = fc.tuple(fc.constantFrom(...TOPICS), fc.constantFrom(...KEYS));
const steps = fc.array(
  fc.oneof(
    fc.record({ publish: fc.array(sent, { minLength: 1, maxLength: 12 }) }),
    fc.record({
      slices: fc.array(
        fc.record({ size: fc.integer({ min: 1, max: 8 }), times: fc.integer({ min: 1, max: 2 }) }),
        {
          maxLength: 4,
        },
      ),
      dies: fc.boolean(),
      puts: fc.boolean(),
    }),
  ),
  { minLength: 1, maxLength: 25 },
);
const counts = fc.tuple(...TOPICS.map(() => fc.integer({ min: 1, max: 3 })));

/** A plain model of a join: for each key a queue for each source. */
class Model {
  readonly completed: [key: string, ...ids: string[]][] = [];
  readonly #counts: Map<string, number>;
  readonly #keys = new Map(KEYS.map((key) => [key, new Map(TOPICS.map((topic) => [topic, [] as string[]]))]));

  constructor(counts: number[]) {
    this.#counts = new Map(TOPICS.map((topic, index) => [topic, counts[index] ?? 0]));
  }

  count(topic: string, key: string, id: string): void {
    const queues = this.#keys.get(key) ?? new Map<string, string[]>();
    queues.get(topic)?.push(id);
    if ([...this.#counts].some(([each, count]) => (queues.get(each)?.length ?? 0) < count)) return;
    this.completed.push([
      key,
      ...[...this.#counts].flatMap(([each, count]) => queues.get(each)?.splice(0, count) ?? []),
    ]);
  }

  get open(): Record<string, string[]> {
    const open = [...this.#keys].map(([key, queues]) => [key, [...queues.values()].flat()] as const);
    return Object.fromEntries(open.filter(([, ids]) => ids.length > 0));
  }
}

async function work({ slices, dies, puts }: Work, worker: string, rules: Rules): Promise<void> {
  const [grant] = (await bus.acquire([worker])).grants;
  // A batch that two workers held when they died is given only to a quarantine.
  const job = (grant ?? (await bus.acquire([worker], { kind: 'quarantine' })).grants[0])?.job;
  if (!job) return;
  let isDone = false;
  for (const { size, times } of slices) {
    if (isDone) break;
    const call = await joins.counting('order', worker, job, { slice: size });
    const replies = [];
    for (let time = 0; time < times; time++) replies.push(await redis.store.run('join_events', call));
    assert.deepEqual(
      replies.map(({ outcome }) => outcome),
      ['counted', 'not_held'].slice(0, times),
    );
    isDone = replies[0]?.isDone ?? false;
  }
  const stale = await joins.counting('order', worker, job);
  if (puts) {
    await joins.put('order', rules);
    assert.equal((await redis.store.run('join_events', stale)).outcome, isDone ? 'not_held' : 'changed');
  }
  if (isDone) return;
  if (dies) {
    await bus.scrub(-1);
    assert.equal((await redis.store.run('join_events', stale)).outcome, 'not_held');
  } else {
    assert.equal((await joins.count('order', worker, job)).isDone, true);
  }
}

test('each event is counted once, in order, whoever counts and dies', async () => {
  await fc.assert(
    fc.asyncProperty(counts, steps, async (counts, all: Step[]) => {
      await redis.flush();
      const rules: Rules = { sources: TOPICS.map((topic, index) => ({ topic, count: counts[index] ?? 1 })) };
      await bus.subscribe('office', { topics: ['ready'], timeout: 600_000, max: 10_000 });
      await joins.put('order', rules);
      const model = new Model(counts);
      let id = 0;
      const workToTheEnd = { slices: [], dies: false, puts: false };
      for (const [index, step] of [...all, ...Array<Work>(all.length + 1).fill(workToTheEnd)].entries()) {
        if ('publish' in step) {
          const published = step.publish.map(([topic, key]): Published => {
            model.count(topic, key, `e${++id}`);
            return [topic, 'pub', [joinEvent(topic, key, `e${id}`)]];
          });
          await bus.publishAll(nthWord(index), ...published);
        } else {
          await work(step, `w${index}`, rules);
        }
      }
      await assertConsistent(redis.store);
      const { batches, queued } = await bus.state();
      assert.deepEqual(Object.keys(queued), queued.office ? ['office'] : []);
      const texts = (queued.office ?? []).flatMap((name) => batches[name]?.events ?? []);
      const completed = texts.map((text) => JSON.parse(text).data).map(({ key, events }) => [key, ...events]);
      assert.deepEqual(completed, model.completed);
      const { rules: whole } = await joins.find('order');
      const { keys: open } = await redis.store.command((commands, keys) =>
        readOpenKeys(commands, keys, { token: TOKEN, ...whole }, 10),
      );
      assert.deepEqual(Object.fromEntries(open.map(({ key, events }) => [key, events])), model.open);
    }),
    { numRuns: 40 },
  );
});
