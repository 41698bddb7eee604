import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { type Bus, FAR_MS, startBuses } from '../bus.ts';
import { eventsBetween, fill, perPostFor } from '../filling.ts';
import { type Case, measureInTurn, type Part, type Plan } from '../part.ts';
import type { SenderCalls } from '../processes/floor_sender.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { Reached, Sample, SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import type { Target } from '../targets.ts';
import { counted, RUBY } from '../workload.ts';

/** Defaults of the bus: the workers of a worker process, and the deliveries in flight of a subscriber. */
const WORKERS = 64;
const LANE = 16;
/**
 * Minimum size of a backlog, in multiples of the batches in flight: the first ones are delivered before the
 * measurement.
 */
const MIN_ROUNDS = 2;
const FULL = { events: 200_000, audiences: [1, 100], sizes: [1, 10, 100, 1000], floorRequests: 20_000 };
const QUICK: typeof FULL = { events: 500, audiences: [1, 5], sizes: [1, 10], floorRequests: 200 };
/** Events/s that the Ruby Routemaster delivers, by the size of its batches, and the target as a multiple of that. */
const RUBY_DELIVERS = new Map([
  [1, { eventsPerSecond: 890, times: 15 }],
  [100, { eventsPerSecond: 40_000, times: 10 }],
]);

interface Parts {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  sender: Helper<SenderCalls>;
  callback: string;
}

/** Delivers a backlog as fast as possible. */
export const deliver: Part = {
  name: 'deliver',
  title: 'a backlog, in batches of 1 to 1,000, to one and to 100 subscribers; beside undici',
  run: async (stage, options) => {
    const sink = stage.helper<SinkCalls>('sink.ts');
    const parts = {
      load: stage.helper<LoadCalls>('load.ts'),
      sink,
      sender: stage.helper<SenderCalls>('floor_sender.ts'),
      callback: await sink.call('listen'),
    };
    const size = options.quick ? QUICK : FULL;
    const buses = await startBuses(stage, options);
    const pids = new Map<Bus, number>();
    for (const { bus } of buses) {
      await subscribe(bus, size, parts.callback);
      pids.set(bus, (await bus.readyWorker()).pid);
    }
    const plans = size.audiences.map((audience): Plan => {
      const samples = new Map<number, Sample>();
      return {
        title: `deliver: a backlog of ${size.events.toLocaleString('en')} events, ${counted(audience, 'subscriber')}`,
        notes: [
          'all are published before the first of them is delivered; to 100 subscribers, a hundredth of them to each',
          `undici POSTs what the bus POSTed last, over ${connectionsFor(audience)} connections`,
          ...(audience === 1 ? [`${RUBY}: on another machine, of two cores`] : []),
        ],
        cases: size.sizes.flatMap((max): Case[] => [
          ...buses.map(({ name, bus, others }) => ({
            row: `${name}, max ${max}`,
            floors: [
              `undici, max ${max}`,
              ...others.map((other) => `${other}, max ${max}`),
              ...(audience === 1 && RUBY_DELIVERS.has(max) ? [`${RUBY}, max ${max}`] : []),
            ],
            measure: async () => {
              const backlog = { audience, max, events: size.events };
              const figures = await measureBus(parts, bus, pids.get(bus) as number, backlog);
              samples.set(max, await parts.sink.call('sample'));
              return figures;
            },
          })),
          {
            row: `undici, max ${max}`,
            measure: () => measureFloor(parts, samples.get(max) as Sample, { audience, max, ...size }),
          },
          ...(audience === 1 ? rubyCase(max) : []),
        ]),
        targets: targets(
          audience,
          buses.slice(1).map(({ name }) => name),
        ),
      };
    });
    return measureInTurn('deliver', plans, options);
  },
};

function connectionsFor(audience: number): number {
  return Math.min(WORKERS, LANE * audience);
}

function topicFor(audience: number, max: number): string {
  return `audience_${audience}_max_${max}`;
}

async function subscribe(bus: Bus, { audiences, sizes }: typeof FULL, callback: string): Promise<void> {
  for (const audience of audiences) {
    for (const max of sizes)
      await bus.audience(audience, { topics: [topicFor(audience, max)], callback, timeout: FAR_MS, max });
  }
}

function rubyCase(max: number): Case[] {
  const known = RUBY_DELIVERS.get(max);
  if (!known) return [];
  const { eventsPerSecond } = known;
  return [{ row: `${RUBY}, max ${max}`, measure: async () => ({ eventsPerSecond }) }];
}

interface Backlog {
  audience: number;
  max: number;
  events: number;
}

/**
 * The worker first delivers some events to warm up: a new process compiles for half a second. Then the subscribers hold
 * back their answers, which stops the worker, until the whole backlog is queued.
 */
async function measureBus(
  parts: Parts,
  bus: Bus,
  workerPid: number,
  { audience, max, events }: Backlog,
): Promise<Figures> {
  const { sink } = parts;
  await sink.call('reset');
  // Full batches only: a partial one would wait for its far deadline.
  const batches = Math.max(events / max, MIN_ROUNDS * connectionsFor(audience));
  const toEach = Math.ceil(batches / audience) * max;
  const warmUp = Math.ceil(toEach / 10 / max) * max;
  const topic = topicFor(audience, max);
  const perPost = perPostFor(audience, max);
  await fill(parts.load, bus, warmUp, topic, perPost);
  await sink.call('reach', warmUp * audience);
  await bus.drained();
  await sink.call('reset');
  await sink.call('hold');
  await fill(parts.load, bus, toEach, topic, perPost);
  const pids = { worker: workerPid, redis: bus.redis.pid };
  const figures = await measureFrom(await sink.call('release'), parts, max, toEach * audience, pids);
  await bus.drained();
  return figures;
}

async function measureFloor(
  parts: Parts,
  request: Sample,
  { audience, max, events, floorRequests }: Backlog & { floorRequests: number },
): Promise<Figures> {
  const { sink, sender } = parts;
  const port = Number(new URL(parts.callback).port);
  const requests = Math.max(floorRequests, events / max);
  await sink.call('reset');
  const sending = sender.call('send', { port, request, requests, connections: connectionsFor(audience) });
  const from = await sink.call('reach', Math.ceil((requests * max) / 10)); // the first tenth warms up
  const [figures] = await Promise.all([
    measureFrom(from, parts, max, requests * max, { worker: sender.pid }),
    sending,
  ]);
  return figures;
}

/** Measures from the moment `from` to the last event. */
async function measureFrom(
  from: Reached,
  { sink }: Parts,
  max: number,
  events: number,
  pids: { worker: number; redis?: number },
): Promise<Figures> {
  const used = cpuSince(pids);
  const to = await sink.call('reach', events);
  const { worker, redis } = used();
  const measured = eventsBetween(from, to);
  return {
    eventsPerSecond: measured / ((to.atUs - from.atUs) / 1e6),
    workerMicrosBatch: (worker / measured) * max,
    workerMicros: worker / measured,
    ...(redis !== undefined && { redisMicros: redis / measured }),
  };
}

/** `others`: the names of the buses that this one is compared with. */
function targets(audience: number, others: string[]): Target[] {
  const shared: Target[] = [
    {
      text: 'worker CPU a batch ≤ 2 × undici at max 1',
      bars: [{ row: 'bus, max 1', floor: 'undici, max 1', metric: 'workerMicrosBatch', max: 2 }],
    },
    {
      text: 'worker CPU ≤ 1.1 µs an event at max 100',
      bars: [{ row: 'bus, max 100', metric: 'workerMicros', max: 1.1 }],
    },
    ...others.map(
      (other): Target => ({
        text: `worker CPU an event at max 1 ≤ that of the ${other}`,
        bars: [{ row: 'bus, max 1', floor: `${other}, max 1`, metric: 'workerMicros', max: 1 }],
      }),
    ),
  ];
  const ruby = [...RUBY_DELIVERS].map(([max, { times }]) => ({
    text: `${times} × the events/s of the Ruby Routemaster at max ${max}`,
    bars: [
      {
        row: `bus, max ${max}`,
        floor: `${RUBY}, max ${max}`,
        metric: 'eventsPerSecond' as const,
        min: times,
      },
    ],
  }));
  return audience === 1 ? [...shared, ...ruby] : shared;
}
