import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { type Estimate, medianEstimate, spread } from '../../harness/measuring/statistics.ts';
import { Bus, FAR_MS, NOWHERE } from '../bus.ts';
import { eventsBetween, fill } from '../filling.ts';
import { type Case, type Measured, measureInTurn, type Part, type Plan } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Taken, TakerCalls } from '../processes/taker.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { TOPIC } from '../workload.ts';

/**
 * `delivered`: number of batches that a worker delivers in a round. `taken`: number of batches that a taker takes in a
 * round. `kept`: maximum number of records in the log, so low that the log is full.
 */
const FULL = { rounds: 4, delivered: 2000, taken: 8000, kept: 500 };
const QUICK: typeof FULL = { rounds: 1, delivered: 300, taken: 1000, kept: 100 };
/** The sizes of batches, each with the maximum that the log may add to the CPU of a delivery. */
const SIZES = [
  { max: 1, percent: 5 },
  { max: 100, percent: 1 },
];
/**
 * Number of calls that count as one measurement. Half of these calls use the log, and write 64 records together. A full
 * log loses its oldest records 64 at a time, so each measurement includes this work once.
 */
const GROUP = 16;
/** Calls of each round that warm up. */
const WARM_UP = 2 * GROUP;

interface Delivering {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  taker: Helper<TakerCalls>;
  /** A bus whose worker delivers without the log. */
  delivering: { bus: Bus; workerPid: number };
  /** A bus without a worker, whose batches the taker takes. */
  taking: Bus;
}

/**
 * Measures the cost that the delivery log adds to a delivery. From one run of a worker to the next the CPU of a
 * delivery varies by more than what the log adds. So the log is turned on and off from one script call to the next, in
 * one process on one Redis, and what it adds is compared with a delivery by a worker.
 */
export const deliveries: Part = {
  name: 'deliveries',
  title: 'the delivery log: what it adds to a delivery',
  run: async (stage, options): Promise<Measured[]> => {
    const size = options.quick ? QUICK : FULL;
    const rounds = options.runs * size.rounds;
    return measureInTurn('deliveries', [costPlan(await start(stage), { ...size, rounds })], {
      ...options,
      runs: 1,
    });
  },
};

/** The worker has one delivery thread, as two would divide a subscriber's deliveries by chance. */
async function start(stage: Stage): Promise<Delivering> {
  const [load, sink] = [stage.helper<LoadCalls>('load.ts'), stage.helper<SinkCalls>('sink.ts')];
  const taker = stage.helper<TakerCalls>('taker.ts');
  const [bus, taking] = [await Bus.start(stage), await Bus.start(stage)];
  const callback = await sink.call('listen');
  for (const { max } of SIZES) {
    const subscription = { topics: [topicFor(max)], timeout: FAR_MS, max };
    await bus.audience(1, { ...subscription, callback });
    await taking.audience(1, { ...subscription, callback: NOWHERE });
  }
  const { pid: workerPid } = await bus.readyWorker({
    ROUTEMASTER_WORKER_THREADS: '1',
    ROUTEMASTER_WORKERS_PER_THREAD: '64',
    ROUTEMASTER_DELIVERY_LOG: '0',
  });
  return { load, sink, taker, delivering: { bus, workerPid }, taking };
}

const topicFor = (max: number) => `${TOPIC}_${max}`;
const rowOf = (max: number) => `max ${max}`;

function costPlan(parts: Delivering, size: typeof FULL): Plan {
  const cases = SIZES.map(({ max }): Case => ({ row: rowOf(max), measure: () => measure(parts, max, size) }));
  return {
    title: 'deliveries: what the log adds to a delivery',
    notes: [
      `worker and Redis: the CPU of a delivery without the log, of ${size.delivered.toLocaleString('en')} batches in each of ${size.rounds} rounds`,
      `added: the CPU of ${size.taken.toLocaleString('en')} batches a round that are taken without a request, the log on and off by turns`,
      'at least, at most: bounds at a confidence of 95 %; more rounds (`--runs`) narrow them',
    ],
    cases,
    targets: SIZES.map(({ max, percent }) => ({
      text: `the log adds ≤ ${percent} % to the CPU of worker and Redis, at max ${max}`,
      bars: [{ row: rowOf(max), metric: 'added' as const, max: percent }],
    })),
  };
}

async function measure(parts: Delivering, max: number, size: typeof FULL): Promise<Figures> {
  const whole: Delivered[] = [];
  const groups: Taken[][] = [];
  for (let round = 0; round < size.rounds; round++) {
    whole.push(await deliver(parts, max, size.delivered));
    await fill(parts.load, parts.taking, size.taken * max, topicFor(max));
    const { url, pid } = parts.taking.redis;
    groups.push(...groupsOf(await parts.taker.call('take', { url, redisPid: pid, kept: size.kept })));
  }
  const worker = spread(whole.map((each) => each.worker)).median;
  const redis = spread(whole.map((each) => each.redis)).median;
  const { value, error } = addedMicros(groups);
  const percent = (micros: number) => (100 * micros) / (worker + redis);
  return {
    workerMicrosBatch: worker,
    redisMicrosBatch: redis,
    addedMicros: value,
    added: percent(value),
    addedAtLeast: percent(value - error),
    addedAtMost: percent(value + error),
  };
}

/** The CPU of a delivery, in µs. */
interface Delivered {
  worker: number;
  redis: number;
}

/** Measures deliveries of a backlog. A tenth warms up. The sink holds back its answers until all is queued. */
async function deliver(
  { load, sink, delivering: { bus, workerPid } }: Delivering,
  max: number,
  batches: number,
): Promise<Delivered> {
  const events = batches * max;
  await sink.call('reset');
  await sink.call('hold');
  await fill(load, bus, events, topicFor(max));
  await sink.call('release');
  const from = await sink.call('reach', Math.ceil(events / 10));
  const used = cpuSince({ worker: workerPid, redis: bus.redis.pid });
  const to = await sink.call('reach', events);
  const { worker, redis } = used();
  await bus.drained();
  const measured = eventsBetween(from, to) / max;
  return { worker: worker / measured, redis: redis / measured };
}

/** Returns groups of the calls of a round. The last calls may have fewer batches, and belong to no group. */
function groupsOf(calls: readonly Taken[]): Taken[][] {
  const groups: Taken[][] = [];
  for (let at = WARM_UP; at + GROUP < calls.length; at += GROUP) groups.push(calls.slice(at, at + GROUP));
  return groups;
}

/** Returns by how much more CPU (µs) a batch took with the log than without it: the median of the groups. */
function addedMicros(groups: readonly Taken[][]): Estimate {
  const mean = (group: Taken[], isLogged: boolean) => {
    const chosen = group.filter((call) => call.isLogged === isLogged);
    return chosen.reduce((sum, call) => sum + call.microsBatch, 0) / chosen.length;
  };
  return medianEstimate(groups.map((group) => mean(group, true) - mean(group, false)));
}
