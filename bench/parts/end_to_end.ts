import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { type Bus, startBuses } from '../bus.ts';
import { type Case, measureInTurn, type Part, type Plan } from '../part.ts';
import type { LoadCalls, LoadPlan } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import { DELIVERED, RUBY, STAMPED } from '../workload.ts';

const CONNECTIONS = 64;
const FULL = { rates: [10, 100, 1000], seconds: 6, warmUp: 3000 };
const QUICK: typeof FULL = { rates: [100], seconds: 1, warmUp: 100 };
/** The Ruby Routemaster's median from publish to receipt with timeout 0, in ms, by the size of its batches. */
const RUBY_MEDIANS = new Map([
  [1, 4],
  [100, 54],
]);
const JUDGED = 100;
/** The timeout of batches, and their maximum of events, which is so high that no batch is full before its deadline. */
const TIMEOUT = 500;
const LONGEST = 10_000;

interface Setting {
  timeout: number;
  max: number;
}

interface Parts {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  callback: string;
  seconds: number;
}

/** Measures the time from publish to receipt, and its CPU. */
export const endToEnd: Part = {
  name: 'end-to-end',
  title: 'from publish to receipt at 10, 100 and 1,000 events/s, with timeout 0 and 500',
  run: async (stage, options) => {
    const { rates, seconds, warmUp } = options.quick ? QUICK : FULL;
    const sink = stage.helper<SinkCalls>('sink.ts');
    const load = stage.helper<LoadCalls>('load.ts');
    const parts = { load, sink, callback: await sink.call('listen'), seconds };
    const started = await startBuses(stage, options);
    const buses: ((typeof started)[number] & { workerPid: number })[] = [];
    for (const each of started)
      buses.push({ ...each, workerPid: await startWorker(parts, each.bus, warmUp) });
    const casesOf = (setting: Setting, perSecond: number): Case[] =>
      buses.map(({ name, bus, others, workerPid }) => ({
        row: rowOf(name, setting, perSecond),
        floors: [
          ...(setting.timeout === 0 ? [floorOf(perSecond)] : []),
          ...others.map((other) => rowOf(other, setting, perSecond)),
          ...(setting.timeout === 0 && perSecond === JUDGED ? [rubyRow(setting.max)] : []),
        ],
        measure: () => measureBus(parts, bus, workerPid, setting, perSecond),
      }));
    const plans: Plan[] = [
      {
        title: 'end to end: from publish to receipt, timeout 0',
        notes: [
          'open loop: an event is due every so often whatever became of those before, and its time counts from then',
          'the floor is a POST to the subscriber itself, at the same rate',
          `${RUBY}: on another machine, of two cores`,
        ],
        cases: [
          ...rates.map((perSecond) => ({
            row: floorOf(perSecond),
            measure: () => measureFloor(parts, perSecond),
          })),
          ...rubyCases(),
          ...rates.flatMap((perSecond) => casesOf({ timeout: 0, max: 1 }, perSecond)),
          ...casesOf({ timeout: 0, max: 100 }, JUDGED),
        ],
        targets: TARGETS,
      },
      {
        title: `end to end: from publish to receipt, timeout ${TIMEOUT}`,
        notes: [
          'after the deadline: from timeout ms after the first event of a batch was due to be sent, to its receipt',
        ],
        cases: rates.flatMap((perSecond) => casesOf({ timeout: TIMEOUT, max: LONGEST }, perSecond)),
        targets: rates.map((perSecond) => ({
          text: `the deadline + ≤ 5 ms at p50 with timeout ${TIMEOUT}, ${perSecond} events/s`,
          bars: [
            {
              row: rowOf('bus', { timeout: TIMEOUT, max: LONGEST }, perSecond),
              metric: 'lateP50Ms' as const,
              max: 5,
            },
          ],
        })),
      },
    ];
    return measureInTurn('end-to-end', plans, options);
  },
};

function rowOf(name: string, { timeout, max }: Setting, perSecond: number): string {
  return timeout === 0 ? `${name}, ${perSecond}/s, max ${max}` : `${name}, ${perSecond}/s`;
}

function floorOf(perSecond: number): string {
  return `a POST, ${perSecond}/s`;
}

function rubyRow(max: number): string {
  return `${RUBY}, max ${max}`;
}

function rubyCases(): Case[] {
  return [...RUBY_MEDIANS].map(([max, p50Ms]) => ({ row: rubyRow(max), measure: async () => ({ p50Ms }) }));
}

function topicFor({ timeout, max }: Setting): string {
  return `timeout_${timeout}_max_${max}`;
}

/** Starts a worker and a subscriber for each setting, and warms all processes up. */
async function startWorker(parts: Parts, bus: Bus, warmUp: number): Promise<number> {
  const settings = [
    { timeout: 0, max: 1 },
    { timeout: 0, max: 100 },
    { timeout: TIMEOUT, max: LONGEST },
  ];
  for (const each of settings)
    await bus.audience(1, { topics: [topicFor(each)], callback: parts.callback, ...each });
  const worker = await bus.readyWorker();
  await parts.sink.call('reset');
  for (const each of settings) {
    const path = `/topics/${topicFor(each)}`;
    const plan = { ...bus.target, path, body: STAMPED, connections: CONNECTIONS, requests: warmUp };
    await parts.load.call('run', { ...plan, perSecond: 1000 });
  }
  await parts.sink.call('reach', warmUp * settings.length);
  return worker.pid;
}

async function measureBus(
  parts: Parts,
  bus: Bus,
  workerPid: number,
  setting: Setting,
  perSecond: number,
): Promise<Figures> {
  const used = cpuSince({ web: bus.web.pid, worker: workerPid, redis: bus.redis.pid });
  const { all, oldest } = await measure(
    parts,
    { ...bus.target, path: `/topics/${topicFor(setting)}`, body: STAMPED },
    perSecond,
  );
  const { web, worker, redis } = used();
  await bus.drained();
  const events = perSecond * parts.seconds;
  return {
    ...all,
    ...(setting.timeout > 0 && {
      lateP50Ms: oldest.p50Ms - setting.timeout,
      lateP99Ms: oldest.p99Ms - setting.timeout,
    }),
    webMicros: web / events,
    workerMicros: worker / events,
    redisMicros: redis / events,
  };
}

async function measureFloor(parts: Parts, perSecond: number): Promise<Figures> {
  const credentials = { scheme: 'basic', token: 'benchmark', secret: 'x' } as const;
  const port = Number(new URL(parts.callback).port);
  const target = { port, credentials, path: '/events', body: DELIVERED };
  return (await measure(parts, target, perSecond)).all;
}

async function measure(
  { sink, load, seconds }: Parts,
  target: Pick<LoadPlan, 'port' | 'path' | 'body' | 'credentials'>,
  perSecond: number,
) {
  await sink.call('reset', true);
  const requests = perSecond * seconds;
  await load.call('run', { ...target, connections: CONNECTIONS, requests, perSecond });
  await sink.call('reach', requests);
  return sink.call('ages');
}

const TARGETS = [
  {
    text: `p50 ≤ 3 ms at ${JUDGED} events/s, max 1`,
    bars: [{ row: `bus, ${JUDGED}/s, max 1`, metric: 'p50Ms' as const, max: 3 }],
  },
  {
    text: `p99 ≤ 15 ms at ${JUDGED} events/s, max 1`,
    bars: [{ row: `bus, ${JUDGED}/s, max 1`, metric: 'p99Ms' as const, max: 15 }],
  },
  ...[...RUBY_MEDIANS.keys()].map((max) => ({
    text: `a median that is not above the Ruby Routemaster's, max ${max}`,
    bars: [{ row: `bus, ${JUDGED}/s, max ${max}`, floor: rubyRow(max), metric: 'p50Ms' as const, max: 1 }],
  })),
];
