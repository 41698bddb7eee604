import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { Bus, FAR_MS } from '../bus.ts';
import { eventsBetween, fill } from '../filling.ts';
import { type Case, type Measured, measureInTurn, type Part, type Plan } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted, TOPIC } from '../workload.ts';

/** Short, since the ratio is small beside what changes from run to run: many runs find it (`--runs 31`). */
const FULL = { batches: 4_000, kept: 2_000 };
const QUICK: typeof FULL = { batches: 300, kept: 100 };

/** The sizes of batches, each with the maximum ratio of a delivery's CPU with the log to that without. */
const SIZES = [
  { max: 1, ratio: 1.05 },
  { max: 100, ratio: 1.01 },
];
const SETTING = 'ROUTEMASTER_DELIVERY_LOG';

interface Delivering {
  name: 'log on' | 'log off';
  bus: Bus;
  workerPid: number;
  sink: Helper<SinkCalls>;
}

/** Measures the cost that the delivery log adds to a delivery. */
export const deliveries: Part = {
  name: 'deliveries',
  title: 'the delivery log: a delivery with and without it',
  run: async (stage, options): Promise<Measured[]> => {
    const size = options.quick ? QUICK : FULL;
    const load = stage.helper<LoadCalls>('load.ts');
    const buses = [await start(stage, 'log off', 0), await start(stage, 'log on', size.kept)];
    return measureInTurn('deliveries', [costPlan(load, buses, size)], options);
  },
};

/** Starts a bus with one delivery thread, as two would divide a subscriber's deliveries by chance. */
async function start(stage: Stage, name: Delivering['name'], records: number): Promise<Delivering> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const bus = await Bus.start(stage);
  const callback = `http://127.0.0.1:${await sink.call('listen')}/events`;
  for (const { max } of SIZES)
    await bus.audience(1, { topics: [topicFor(max)], callback, timeout: FAR_MS, max });
  const worker = await bus.readyWorker({
    ...{ ROUTEMASTER_WORKER_THREADS: '1', ROUTEMASTER_WORKERS_PER_THREAD: '64', [SETTING]: String(records) },
  });
  return { name, bus, workerPid: worker.pid, sink };
}

const topicFor = (max: number) => `${TOPIC}_${max}`;
const rowOf = (name: Delivering['name'], max: number) => `${name}, max ${max}`;

function costPlan(load: Helper<LoadCalls>, buses: Delivering[], { batches, kept }: typeof FULL): Plan {
  const cases = SIZES.flatMap(({ max }): Case[] =>
    buses.map((each) => ({
      row: rowOf(each.name, max),
      floors: each.name === 'log on' ? [rowOf('log off', max)] : [],
      measure: () => measure(load, each, max, batches),
    })),
  );
  return {
    title: 'deliveries: what the log adds to a delivery',
    notes: [
      `a backlog of ${batches.toLocaleString('en')} batches; the log keeps ${counted(kept, 'record')}, so that it is full`,
      'one delivery thread; both: the CPU of worker and Redis together',
    ],
    cases,
    targets: SIZES.map(({ max, ratio }) => ({
      text: `worker and Redis with the log ≤ ${ratio} × those without, at max ${max}`,
      bars: [{ row: rowOf('log on', max), floor: rowOf('log off', max), metric: 'bothMicros', max: ratio }],
    })),
  };
}

/** A tenth of the backlog warms up. The subscriber holds back its answers until all of it is queued. */
async function measure(
  load: Helper<LoadCalls>,
  { bus, workerPid, sink }: Delivering,
  max: number,
  batches: number,
): Promise<Figures> {
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
  const measured = eventsBetween(from, to);
  return {
    eventsPerSecond: measured / ((to.atUs - from.atUs) / 1e6),
    workerMicros: worker / measured,
    redisMicros: redis / measured,
    bothMicros: (worker + redis) / measured,
  };
}
