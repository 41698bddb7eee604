import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { Bus, FAR_MS } from '../bus.ts';
import { type Case, type Measured, measureInTurn, type Part, type Plan } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { bulk, EVENT, STAMPED } from '../workload.ts';

const FULL = { copies: 200_000, maxEvents: 40_000, max: 100, singles: 400 };
const QUICK: typeof FULL = { copies: 9_600, maxEvents: 4_800, max: 10, singles: 40 };

const MASTERS = 3;
const PARTITIONS = 16;
/** Number of topics, which are published to in turn. Topics and subscribers are spread over all partitions. */
const TOPICS = 48;

/**
 * The cases: the number of subscribers of each topic, the number of topics of each subscriber, and the maximum ratio of
 * Redis's CPU on a cluster to that on one Redis.
 */
const AUDIENCES = [
  { subscribers: 1, topicsEach: 1, ratio: 1.6 },
  { subscribers: 10, topicsEach: 12, ratio: 1.4 },
  { subscribers: 100, topicsEach: TOPICS, ratio: 1.2 },
];
type Audience = Pick<(typeof AUDIENCES)[number], 'subscribers' | 'topicsEach'>;
const MAX_BUSIEST = 1.3;
/**
 * `perPost`: the number of events in a POST. `times`: how many times as many events are published as with one event in
 * a POST.
 */
const POSTS = [
  { perPost: 1, times: 1 },
  { perPost: 20, times: 5 },
];
/**
 * The rate of events on an idle bus. At this rate, a cluster may add MAX_MORE_MS to the median time until an event is
 * received.
 */
const SINGLES_PER_SECOND = 20;
const MAX_MORE_MS = 3;

const ROWS = { one: 'one Redis', cluster: `${PARTITIONS} partitions on ${MASTERS} masters` };

interface Sharing {
  name: string;
  bus: Bus;
  worker: BusProcess;
  redisPids: number[];
  sink: Helper<SinkCalls>;
}

/**
 * Measures the CPU of web, worker and Redis for an event, and the time to its receipt on an idle bus: on one Redis with
 * one partition, and on a cluster with sixteen, all masters together.
 */
export const partitions: Part = {
  name: 'partitions',
  title: `an event on one Redis, and on a cluster of ${MASTERS} masters`,
  run: async (stage, options): Promise<Measured[]> => {
    const size = options.quick ? QUICK : FULL;
    const load = stage.helper<LoadCalls>('load.ts');
    const one = await Bus.start(stage);
    const cluster = await stage.cluster(MASTERS);
    const many = await Bus.startOnCluster(stage, cluster, PARTITIONS);
    const both = [
      await prepare(stage, { name: ROWS.one, bus: one, redisPids: [one.redis.pid] }, size.max),
      await prepare(
        stage,
        { name: ROWS.cluster, bus: many, redisPids: cluster.nodes.map(({ pid }) => pid) },
        size.max,
      ),
    ];
    return measureInTurn('partitions', [costPlan(load, both, size), latencyPlan(load, both, size)], options);
  },
};

async function prepare(
  stage: Stage,
  { name, bus, redisPids }: Omit<Sharing, 'sink' | 'worker'>,
  max: number,
): Promise<Sharing> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const callback = await sink.call('listen');
  for (const { subscribers, topicsEach } of AUDIENCES) {
    for (let from = 0; from < TOPICS; from += topicsEach) {
      const topics = Array.from({ length: topicsEach }, (_, n) => `${topicFor(subscribers)}${from + n}`);
      await bus.audience(subscribers, { topics, callback, timeout: FAR_MS, max });
    }
  }
  const topics = Array.from({ length: TOPICS }, (_, n) => `${SINGLE}${n}`);
  for (const topic of topics) await bus.audience(1, { topics: [topic], callback, timeout: 0, max: 1 });
  const worker = bus.worker();
  await worker.logs('delivering');
  return { name, bus, worker, redisPids, sink };
}

/** The beginning of the topics whose events are delivered one by one. */
const SINGLE = 'single_';
const topicFor = (subscribers: number) => `to_${subscribers}_`;
const rowOf = (name: string, subscribers: number, perPost = 1) =>
  `${name}, ${subscribers} subscribers${perPost > 1 ? `, arrays of ${perPost}` : ''}`;

function costPlan(load: Helper<LoadCalls>, both: Sharing[], size: typeof FULL): Plan {
  const cases = POSTS.flatMap((posts) =>
    AUDIENCES.flatMap(({ subscribers, topicsEach }): Case[] =>
      both.map((each) => ({
        row: rowOf(each.name, subscribers, posts.perPost),
        floors: each.name === ROWS.cluster ? [rowOf(ROWS.one, subscribers, posts.perPost)] : [],
        measure: () => measure(load, each, { subscribers, topicsEach, ...posts }, size),
      })),
    ),
  );
  return {
    title: 'partitions: the CPU of all Redis for an event, from its publish to its deliveries',
    notes: [
      `published over 64 connections to ${TOPICS} topics in turn; delivered in batches of ${size.max}`,
      'busiest: the CPU of the busiest master in relation to the mean of all',
    ],
    cases,
    targets: [
      ...AUDIENCES.map(({ subscribers, ratio }) => ({
        text: `Redis on a cluster ≤ ${ratio} × one Redis, with ${subscribers} subscribers`,
        bars: [
          {
            row: rowOf(ROWS.cluster, subscribers),
            floor: rowOf(ROWS.one, subscribers),
            metric: 'redisMicros' as const,
            max: ratio,
          },
        ],
      })),
      ...AUDIENCES.map(({ subscribers }) => ({
        text: `the busiest master ≤ ${MAX_BUSIEST} × the mean, with ${subscribers} subscribers`,
        bars: [{ row: rowOf(ROWS.cluster, subscribers), metric: 'busiest' as const, max: MAX_BUSIEST }],
      })),
    ],
  };
}

/** Measures one case, after a tenth as many events to warm up. Batches that are not full stay for the next round. */
async function measure(
  load: Helper<LoadCalls>,
  { bus, worker, redisPids, sink }: Sharing,
  { subscribers, topicsEach, perPost, times }: Audience & (typeof POSTS)[number],
  { copies, maxEvents, max }: typeof FULL,
): Promise<Figures> {
  const posts = Math.ceil((Math.min(maxEvents, copies / subscribers) * times) / perPost);
  const warmUp = Math.ceil(posts / 10);
  const events = posts * perPost;
  await sink.call('reset');
  const publish = (requests: number) =>
    load.call('run', {
      ...bus.target,
      path: `/topics/${topicFor(subscribers)}`,
      paths: TOPICS,
      connections: 64,
      requests,
      body: perPost === 1 ? EVENT : bulk('array', perPost).body,
    });
  await publish(warmUp);
  const used = cpuSince(Object.fromEntries(redisPids.map((pid, index) => [index, pid])));
  const usedByBus = cpuSince({ web: bus.web.pid, worker: worker.pid });
  const { seconds } = await publish(posts);
  // Does not wait for events in batches that are not full. Each subscriber has at most one such batch.
  const open = (max * subscribers * TOPICS) / topicsEach;
  await sink.call('reach', Math.max(1, (events + warmUp * perPost) * subscribers - open));
  const micros = Object.values(used()) as number[];
  const { web, worker: its } = usedByBus();
  const sum = micros.reduce((total, each) => total + each, 0);
  return {
    eventsPerSecond: events / seconds,
    webMicros: web / events,
    workerMicros: its / events,
    redisMicros: sum / events,
    busiest: (Math.max(...micros) * micros.length) / sum,
  };
}

function latencyPlan(load: Helper<LoadCalls>, both: Sharing[], { singles }: typeof FULL): Plan {
  let oneMs = 0;
  const measureOne = async ({ bus, sink }: Sharing): Promise<number> => {
    await sink.call('reset', true);
    const plan = { ...bus.target, path: `/topics/${SINGLE}`, paths: TOPICS, body: STAMPED, connections: 4 };
    await load.call('run', { ...plan, requests: singles, perSecond: SINGLES_PER_SECOND });
    await sink.call('reach', singles);
    return (await sink.call('ages')).all.p50Ms;
  };
  const [one, cluster] = both as [Sharing, Sharing];
  return {
    title: 'partitions: from publish to receipt on an idle bus',
    notes: [
      `${SINGLES_PER_SECOND} events/s to ${TOPICS} topics in turn, each with one subscriber, timeout 0, max 1`,
    ],
    cases: [
      {
        row: one.name,
        measure: async () => {
          oneMs = await measureOne(one);
          return { p50Ms: oneMs };
        },
      },
      {
        row: cluster.name,
        floors: [one.name],
        measure: async () => {
          const p50Ms = await measureOne(cluster);
          return { p50Ms, p50MsMore: p50Ms - oneMs };
        },
      },
    ],
    targets: [
      {
        text: `a cluster adds ≤ ${MAX_MORE_MS} ms to the p50`,
        bars: [{ row: cluster.name, metric: 'p50MsMore', max: MAX_MORE_MS }],
      },
    ],
  };
}
