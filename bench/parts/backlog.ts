import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { type Bus, FAR_MS, NOWHERE, startWithSink } from '../bus.ts';
import { eventsBetween, fill } from '../filling.ts';
import { type Case, isChosen, measureInTurn, type Part, type Plan } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures, Metric } from '../result.ts';
import type { Target } from '../targets.ts';
import { counted, EVENT, TOPIC } from '../workload.ts';
import { autodropPlan } from './autodrop.ts';

const FULL = {
  queued: [100_000, 1_000_000, 10_000_000],
  subscribers: [1_000, 10_000],
  topics: 10_000,
  published: 30_000,
  delivered: 150_000,
  warmUp: 50_000,
  dropped: 1_000_000,
};
const QUICK: typeof FULL = {
  queued: [10_000],
  subscribers: [50],
  topics: 50,
  published: 500,
  delivered: 2_000,
  warmUp: 2_000,
  dropped: 50_000,
};
type Size = typeof FULL;

const CONNECTIONS = 64;
const MAX = 100;
/** Topics other than the one that is measured. */
const CROWD = 'crowd';
const MANY = 'many_';
/** Maximum topics of a subscription. */
const SUBSCRIPTION_TOPICS_MAX = 1000;
const PUBLISH = `backlog: cost of a publish, ${CONNECTIONS} connections`;
const DELIVERY = `backlog: cost of a delivery, batches of ${MAX}`;
const FLOOR = 'nothing queued';
const ALL_PUBLISHED = ', all published to';
const MAX_RATIO = 1.2;

interface Standing {
  row: string;
  bus: Bus;
  sink: Helper<SinkCalls>;
  /** Number of topics of the row `many`. */
  topics: number;
}

/** The cost of publishing and delivering beside a backlog, a large audience and many topics. */
export const backlog: Part = {
  name: 'backlog',
  title: 'cost beside up to 10 million queued events, 10,000 subscribers, 10,000 topics; autodrop',
  run: async (stage, options) => {
    const size = options.quick ? QUICK : FULL;
    const load = stage.helper<LoadCalls>('load.ts');
    // The events of all repetitions are queued at the start, so that each repetition finds the same backlog.
    const reserve = options.runs * (size.warmUp + size.delivered) + size.warmUp;
    const standing: Standing[] = [];
    const stand = async (
      row: string,
      queued: number,
      prepare: (bus: Bus) => Promise<number> = async () => 0,
    ) => {
      if (row !== FLOOR && ![PUBLISH, DELIVERY].some((title) => isChosen(title, row, options.only))) return;
      process.stderr.write(`backlog: prepares a bus with ${row} … `);
      const bus = await startWithSink(stage);
      const topics = await prepare(bus.bus);
      await fill(load, bus.bus, queued);
      standing.push({ row, ...bus, topics });
      process.stderr.write('done\n');
    };
    await stand(FLOOR, 0);
    for (const queued of size.queued) await stand(`${counted(queued, 'event')} queued`, queued);
    for (const count of size.subscribers)
      await stand(`${counted(count, 'other subscriber')}`, 0, (bus) => crowd(load, bus, count));
    await stand(`${counted(size.topics, 'topic')}`, 0, (bus) => manyTopics(load, bus, size.topics));
    const publishing = await measureInTurn('backlog', [publishPlan(load, standing, size)], options);
    for (const { bus } of standing) await fill(load, bus, reserve);
    const delivery = await deliveryPlan(standing, size);
    return [
      ...publishing,
      ...(await measureInTurn('backlog', [delivery], options)),
      ...(await measureInTurn('backlog', [await autodropPlan(stage, load, size.dropped)], options)),
    ];
  },
};

/** Makes other subscribers, each with a batch that waits for its deadline. */
async function crowd(load: Helper<LoadCalls>, bus: Bus, count: number): Promise<number> {
  await bus.audience(count, { topics: [CROWD], callback: NOWHERE, timeout: FAR_MS, max: MAX });
  await fill(load, bus, 1, CROWD);
  return 0;
}

/** Makes topics, publishes to each, and subscribes clients to as many topics as a subscription may name. */
async function manyTopics(load: Helper<LoadCalls>, bus: Bus, count: number): Promise<number> {
  const names = Array.from({ length: count }, (_, at) => `${MANY}${at}`);
  for (let at = 0; at < count; at += SUBSCRIPTION_TOPICS_MAX) {
    const topics = names.slice(at, at + SUBSCRIPTION_TOPICS_MAX);
    await bus.audience(1, { topics, callback: NOWHERE, timeout: FAR_MS, max: MAX });
  }
  await load.call('run', manyPlan(bus, count, count));
  return count;
}

function manyPlan(bus: Bus, topics: number, requests: number) {
  const path = `/topics/${MANY}`;
  return { ...bus.target, path, paths: topics, connections: CONNECTIONS, body: EVENT, requests };
}

function publishPlan(load: Helper<LoadCalls>, standing: Standing[], { published }: Size): Plan {
  const cases = standing.flatMap(({ row, bus, topics }): Case[] => {
    const one = { ...bus.target, path: `/topics/${TOPIC}`, connections: CONNECTIONS, body: EVENT };
    const floors = row === FLOOR ? [] : [FLOOR];
    const measure = async (plan: typeof one) => {
      await load.call('run', { ...plan, requests: Math.ceil(published / 5) }); // warms up
      const used = cpuSince({ web: bus.web.pid, redis: bus.redis.pid });
      const { seconds } = await load.call('run', { ...plan, requests: published });
      const { web, redis } = used();
      return {
        eventsPerSecond: published / seconds,
        webMicros: web / published,
        redisMicros: redis / published,
      };
    };
    return [
      { row, floors, measure: () => measure(one) },
      ...(topics > 0
        ? [{ row: `${row}${ALL_PUBLISHED}`, floors, measure: () => measure(manyPlan(bus, topics, 0)) }]
        : []),
    ];
  });
  return {
    title: PUBLISH,
    notes: [
      'events are queued in full batches of the same subscriber; other subscribers have a batch each; Basic, single events',
      'all published to: each event to the next of the topics, so that no two that ride in one script call share theirs; not judged',
    ],
    cases,
    targets: flat(
      cases.filter(({ row }) => !row.endsWith(ALL_PUBLISHED)),
      ['webMicros', 'redisMicros'],
    ),
  };
}

/**
 * With two delivery threads, chance decides at the start whether one has all of a subscriber's deliveries or each has
 * half. A script call then serves eight deliveries or four, and an event costs Redis 0.86 or 1.13 µs. With one thread a
 * call always serves eight.
 */
const ONE_THREAD = { ROUTEMASTER_WORKER_THREADS: '1' };

/** Starts the workers, and waits for their first sweep, whose cost depends on what is queued. */
async function deliveryPlan(standing: Standing[], { delivered, warmUp }: Size): Promise<Plan> {
  const ready: (Standing & { worker: BusProcess })[] = [];
  for (const each of standing) {
    process.stderr.write(`backlog: starts the worker beside ${each.row} … `);
    await each.sink.call('hold');
    ready.push({ ...each, worker: await each.bus.readyWorker(ONE_THREAD) });
    process.stderr.write('done\n');
  }
  const cases = ready.map(
    ({ row, bus, sink, worker }): Case => ({
      row,
      floors: row === FLOOR ? [] : [FLOOR],
      measure: async (): Promise<Figures> => {
        await sink.call('reset');
        await sink.call('release');
        const from = await sink.call('reach', warmUp);
        const used = cpuSince({ worker: worker.pid, redis: bus.redis.pid });
        const to = await sink.call('reach', warmUp + delivered);
        const its = used();
        await sink.call('hold');
        const events = eventsBetween(from, to);
        return {
          eventsPerSecond: events / ((to.atUs - from.atUs) / 1e6),
          workerMicros: its.worker / events,
          redisMicros: its.redis / events,
        };
      },
    }),
  );
  return {
    title: DELIVERY,
    notes: [
      `${counted(delivered, 'event')} from the front of the queue; nothing queued: no more than what is delivered`,
      'one delivery thread; the sweep that a worker makes as it starts is over by then',
    ],
    cases,
    targets: flat(cases, ['workerMicros', 'redisMicros']),
  };
}

function flat(cases: readonly Case[], metrics: Metric[]): Target[] {
  const names = { webMicros: 'web', workerMicros: 'worker', redisMicros: 'Redis' } as Record<string, string>;
  return cases
    .filter(({ row }) => row !== FLOOR)
    .flatMap(({ row }) =>
      metrics.map((metric) => ({
        text: `${row}: ${names[metric]} CPU an event ≤ ${MAX_RATIO} × that beside ${FLOOR}`,
        bars: [{ row, floor: FLOOR, metric, max: MAX_RATIO }],
      })),
    );
}
