import { residentMiB } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { spread } from '../../harness/measuring/statistics.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { type Bus, FAR_MS, NOWHERE, startBuses, startWithSink } from '../bus.ts';
import { fill } from '../filling.ts';
import type { Options } from '../options.ts';
import { type Measured, measureInTurn, type Part } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted, TOPIC } from '../workload.ts';

const FULL = { queued: 200_000, slice: 1_000_000, slices: 10 };
const QUICK: typeof FULL = { queued: 2_000, slice: 2_000, slices: 3 };
const SIZES = [1, 10, 100, 1000];
const SAMPLE_MS = 250;
/**
 * To judge growth, the median of the last COMPARED slices of the run is compared with the median of as many early
 * slices. The first third of all slices is left out, because heaps find their size then: a thread of a worker takes its
 * last step, of some 55 MiB, in the second or the fourth million events.
 */
const COMPARED = 3;
const settling = (slices: number) => Math.floor(slices / 3);

/** Measures the memory of queued events in Redis, and of web and worker over ten million events. */
export const memory: Part = {
  name: 'memory',
  title: 'bytes of Redis a queued event; memory of web and worker over 10 million events',
  run: async (stage, options) => [...(await queued(stage, options)), ...(await resident(stage, options))],
};

async function queued(stage: Stage, options: Options): Promise<Measured[]> {
  const { queued: events } = options.quick ? QUICK : FULL;
  const load = stage.helper<LoadCalls>('load.ts');
  const buses = await startBuses(stage, options);
  const prepared = await Promise.all(
    buses.map(async (each) => ({ ...each, jsonBytes: await deliveredBytes(stage, load, each.bus) })),
  );
  for (const { bus } of prepared) {
    for (const max of SIZES)
      await bus.audience(1, { topics: [topicFor(max)], callback: NOWHERE, timeout: FAR_MS, max });
    await bus.store.keep();
  }
  const cases = SIZES.flatMap((max) =>
    prepared.map(({ name, bus, others, jsonBytes }) => ({
      row: rowOf(name, max),
      floors: others.map((other) => rowOf(other, max)),
      measure: async (): Promise<Figures> => {
        await bus.store.restore();
        const before = await bus.store.usedBytes();
        await fill(load, bus, events, topicFor(max));
        const bytes = ((await bus.store.usedBytes()) - before) / events;
        return { bytes, timesJson: bytes / jsonBytes };
      },
    })),
  );
  const sizes = prepared.map(
    ({ name, jsonBytes }) => `${jsonBytes} bytes of JSON as the ${name} delivers them`,
  );
  const plan = {
    title: 'memory: what a queued event takes of Redis',
    notes: [
      `${counted(events, 'event')}, each ${sizes.join(', ')}; one subscriber`,
      'indexes and jobs included, connections not',
    ],
    cases,
    targets: [
      {
        text: '≤ 1.15 × its JSON in batches of 100',
        bars: [{ row: rowOf('bus', 100), metric: 'timesJson' as const, max: 1.15 }],
      },
    ],
  };
  return measureInTurn('memory', [plan], options);
}

function topicFor(max: number): string {
  return `max_${max}`;
}

function rowOf(bus: string, max: number): string {
  return `${bus}, batches of ${max}`;
}

/** Resolves with the bytes of an event as its subscriber gets it, found by delivering one. */
async function deliveredBytes(stage: Stage, load: Helper<LoadCalls>, bus: Bus): Promise<number> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const callback = await sink.call('listen');
  await bus.audience(1, { topics: [TOPIC], callback, timeout: 0, max: 1 });
  const worker = await bus.readyWorker();
  await fill(load, bus, 1);
  await sink.call('reach', 1);
  await bus.drained();
  await worker.stop();
  const { body } = await sink.call('sample');
  return Buffer.byteLength(body) - '[]'.length;
}

async function resident(stage: Stage, options: Options): Promise<Measured[]> {
  const { slice, slices } = options.quick ? QUICK : FULL;
  const load = stage.helper<LoadCalls>('load.ts');
  const { bus, sink } = await startWithSink(stage);
  const worker = await bus.readyWorker();
  const sizes = () => sizesOf(bus, worker);
  const peaks: Figures[] = [];
  const flow = async () => {
    const peak = await peakWhile(sizes, () => flowThrough({ load, sink, bus, slice }));
    peaks.push(peak);
    return peak;
  };
  const cases = [
    { row: 'at rest', measure: async () => sizes() },
    ...Array.from({ length: slices }, (_, at) => ({
      row: `up to ${((at + 1) * slice).toLocaleString('en')} events`,
      measure: async () => ({ ...(await flow()), ...(at === slices - 1 && growth(peaks)) }),
    })),
  ];
  const plan = {
    title: 'memory: processes while events come and go',
    notes: [
      `the most that each takes while ${slice.toLocaleString('en')} more events are published and delivered, in batches of 100`,
      `early: the median of ${COMPARED} of these, the first ${settling(slices)} left out; it is compared with the median of the last ${COMPARED}`,
    ],
    cases,
    targets: (['webGrowth', 'workerGrowth'] as const).map((metric) => ({
      text: `${metric === 'webGrowth' ? 'web' : 'worker'} does not grow over ${(slices * slice).toLocaleString('en')} events (≤ 1.1 × early)`,
      bars: [{ row: cases.at(-1)?.row ?? '', metric, max: 1.1 }],
    })),
  };
  // Always one run: three would measure the growth over thirty million events.
  return measureInTurn('memory', [plan], { ...options, runs: 1 });
}

interface Flow {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  bus: Bus;
  slice: number;
}

async function flowThrough({ load, sink, bus, slice }: Flow): Promise<void> {
  await sink.call('reset');
  await Promise.all([fill(load, bus, slice), sink.call('reach', slice)]);
  await bus.drained();
}

function sizesOf(bus: Bus, worker: BusProcess): Figures {
  const [web, its, redis] = [bus.web, worker, bus.redis].map(({ pid }) => residentMiB(pid));
  return { webMiB: web ?? 0, workerMiB: its ?? 0, redisMiB: redis ?? 0 };
}

/** Resolves with the highest value of each figure while `work` goes on. */
async function peakWhile(read: () => Figures, work: () => Promise<void>): Promise<Figures> {
  const peak = read();
  const look = () => {
    for (const [name, value] of Object.entries(read()) as [keyof Figures, number][])
      peak[name] = Math.max(peak[name] ?? 0, value);
  };
  const timer = setInterval(look, SAMPLE_MS);
  await work().finally(() => clearInterval(timer));
  look();
  return peak;
}

function growth(peaks: readonly Figures[]): Figures {
  const of = (metric: 'webMiB' | 'workerMiB') => {
    const values = peaks.map((peak) => peak[metric] ?? 0);
    const first = settling(values.length);
    return spread(values.slice(-COMPARED)).median / spread(values.slice(first, first + COMPARED)).median;
  };
  return { webGrowth: of('webMiB'), workerGrowth: of('workerMiB') };
}
