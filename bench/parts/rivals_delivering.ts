import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { until } from '../../harness/until.ts';
import { Bus, FAR_MS, startBuses } from '../bus.ts';
import { eventsBetween } from '../filling.ts';
import type { Options } from '../options.ts';
import type { Plan } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import { ARRAY, beside, busRow, JOB_AN_ARRAY, JOB_AN_EVENT, Rival, rivalRow } from '../rival.ts';
import type { Stage } from '../stage.ts';
import type { Target } from '../targets.ts';
import { STAMPED } from '../workload.ts';
import { ARRAYS, type Work } from './rivals_accepting.ts';

/** Deliveries in flight of BullMQ: as many as a worker process of the bus has workers. */
const CONCURRENCY = 64;
const SINGLY = 'event by event';

interface Size {
  /** Events, one by one. */
  delivered: number;
  /** Batches. */
  batches: number;
  perSecond: number;
  seconds: number;
}

interface Delivering {
  system: Bus | Rival;
  worker: BusProcess;
}

/**
 * Plans the rows for delivering a backlog, and for latency from publish to receipt. Each system has a worker process.
 */
export async function delivering(
  stage: Stage,
  load: Helper<LoadCalls>,
  size: Size,
  options: Options,
): Promise<Plan[]> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const callback = await sink.call('listen');
  const started = await startBuses(stage, options);
  for (const { bus } of started) {
    await bus.audience(1, { topics: ['singly'], callback, timeout: FAR_MS, max: 1 });
    await bus.audience(1, { topics: ['batched'], callback, timeout: FAR_MS, max: ARRAY });
    await bus.audience(1, { topics: ['prompt'], callback, timeout: 0, max: 1 });
  }
  const buses = await Promise.all(
    started.map(async ({ bus, ...its }) => ({ ...its, system: bus, worker: await bus.readyWorker() })),
  );
  const rival = await Rival.start(stage, { singly: [callback], batched: [callback], prompt: [callback] });
  const its = { system: rival, worker: await rival.readyWorker(CONCURRENCY) };
  const each = (measure: (its: Delivering) => Promise<Figures>) =>
    buses.map((bus) => ({ ...bus, measure: () => measure(bus) }));
  const backlog = (system: Delivering, work: Work) => measureBacklog(load, sink, system, work);
  const latency = (system: Delivering) => measureLatency(load, sink, system, size);
  const singles = { ...ARRAYS, path: '/topics/singly', requests: Math.ceil(size.delivered / ARRAY) };
  const batched = { ...ARRAYS, path: '/topics/batched', requests: size.batches };
  return [
    {
      title: 'rivals: delivering a backlog',
      notes: [
        'one worker process each, one subscriber',
        `${CONCURRENCY} deliveries in flight of BullMQ; of the bus 16, which is what a subscriber gets`,
      ],
      cases: [
        ...beside(
          SINGLY,
          each((bus) => backlog(bus, singles)),
          { [JOB_AN_EVENT]: () => backlog(its, singles) },
        ),
        ...beside(
          `batches of ${ARRAY}`,
          each((bus) => backlog(bus, batched)),
          { [JOB_AN_ARRAY]: () => backlog(its, { ...batched, path: '/batches/batched' }) },
        ),
      ],
    },
    {
      title: 'rivals: from publish to receipt',
      notes: [`${size.perSecond} events/s, open loop, event by event; the bus with timeout 0 and max 1`],
      cases: beside(SINGLY, each(latency), { [JOB_AN_EVENT]: () => latency(its) }),
      targets: everydayTargets(size.perSecond),
    },
  ];
}

function everydayTargets(perSecond: number): Target[] {
  const bar = { row: busRow(SINGLY), floor: rivalRow(SINGLY, JOB_AN_EVENT), max: 1 };
  return [
    {
      text: `${perSecond} events/s: worker CPU an event ≤ BullMQ's`,
      bars: [{ ...bar, metric: 'workerMicros' }],
    },
    {
      text: `${perSecond} events/s: Redis CPU an event ≤ BullMQ's`,
      bars: [{ ...bar, metric: 'redisMicros' }],
    },
  ];
}

/** Measures the delivery of a backlog, like the part `deliver`. */
async function measureBacklog(
  load: Helper<LoadCalls>,
  sink: Helper<SinkCalls>,
  { system, worker }: Delivering,
  { eventsOfRequest, requests, ...work }: Work,
): Promise<Figures> {
  const plan = { ...system.target, ...work };
  const warmUp = Math.ceil(requests / 5);
  await sink.call('reset');
  await load.call('run', { ...plan, requests: warmUp });
  await sink.call('reach', warmUp * eventsOfRequest);
  await quiet(system);
  await sink.call('reset');
  await sink.call('hold');
  await load.call('run', { ...plan, requests });
  const from = await sink.call('release');
  const used = cpuSince({ worker: worker.pid, redis: system.redis.pid });
  const to = await sink.call('reach', requests * eventsOfRequest);
  const its = used();
  await quiet(system);
  const measured = eventsBetween(from, to);
  return {
    eventsPerSecond: measured / ((to.atUs - from.atUs) / 1e6),
    workerMicros: its.worker / measured,
    redisMicros: its.redis / measured,
  };
}

/** Resolves when every delivery has been acknowledged. */
async function quiet(system: Bus | Rival): Promise<void> {
  if (system instanceof Bus) return system.drained();
  await until(async () => (await system.unfinished()) === 0, {
    timeoutMs: 10_000,
    what: 'no delivered job stays',
  });
}

async function measureLatency(
  load: Helper<LoadCalls>,
  sink: Helper<SinkCalls>,
  { system, worker }: Delivering,
  { perSecond, seconds }: Size,
): Promise<Figures> {
  const requests = perSecond * seconds;
  const plan = { ...system.target, path: '/topics/prompt', body: STAMPED, connections: 64, perSecond };
  await load.call('run', { ...plan, requests: Math.ceil(requests / 5) }); // warms up
  await quiet(system);
  await sink.call('reset', true);
  const used = cpuSince({ web: system.web.pid, worker: worker.pid, redis: system.redis.pid });
  await load.call('run', { ...plan, requests });
  await sink.call('reach', requests);
  const { web, worker: its, redis } = used();
  await quiet(system);
  const { all } = await sink.call('ages');
  return {
    ...all,
    webMicros: web / requests,
    workerMicros: its / requests,
    redisMicros: redis / requests,
  };
}
