import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { type Bus, FAR_MS, NOWHERE, startBuses } from '../bus.ts';
import type { Options } from '../options.ts';
import { type Case, measureInTurn, type Part, type Plan } from '../part.ts';
import type { LoadCredentials } from '../processes/authorization.ts';
import type { FloorCalls } from '../processes/floor_server.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import type { Target } from '../targets.ts';
import { counted, EVENT, RUBY } from '../workload.ts';

const SCHEMES = ['basic', 'digest'] as const;
const FLOORS = ['node:http', 'Express'] as const;
/** Credentials for requests to the floors, which read the header and do not check it. */
const ANYBODY = {
  scheme: 'basic',
  token: 'billing--V1StGXR8Z5jdHi6BmyTQ',
  secret: 'Uakgb_J5m9g-0JDM',
} as const;
/** Events/s that the Ruby Routemaster accepts, by its subscribers. */
const RUBY_ACCEPTS = new Map([
  [1, 1850],
  [10, 500],
]);
const JUDGED = 64;

const FULL = {
  connections: [1, 16, 64, 256],
  audiences: [1, 10, 100],
  /** Returns a number of events that takes about two seconds. */
  events: (connections: number, audience: number) =>
    connections === 1 ? 6_000 : ({ 10: 30_000, 100: 10_000 }[audience] ?? 50_000),
};
const QUICK: typeof FULL = { connections: [1, 64], audiences: [1, 10], events: () => 200 };

interface Offered {
  port: number;
  path: string;
  credentials: LoadCredentials;
  pids: { web: number; redis?: number };
}

/** Publishes single events, without a worker. */
export const publish: Part = {
  name: 'publish',
  title: 'single events: connections, Basic and Digest, subscribers; beside node:http and Express',
  run: async (stage, options) => {
    const size = options.quick ? QUICK : FULL;
    const load = stage.helper<LoadCalls>('load.ts');
    const floors = await startFloors(stage);
    const buses = await startBuses(stage, options);
    for (const { bus } of buses) await subscribe(bus, size.audiences);
    const plans = size.connections.map((connections): Plan => {
      const measure = (target: Offered, audience: number) =>
        measureLoad(load, target, connections, size.events(connections, audience));
      return {
        title: `publish: single events, ${counted(connections, 'connection')}`,
        notes: [
          'latency from request to answer',
          ...(connections === JUDGED ? [`${RUBY}: on another machine, of two cores`] : []),
        ],
        cases: [
          ...FLOORS.map((row) => ({ row, measure: () => measure(floors[row], 1) })),
          ...(connections === JUDGED ? rubyCases() : []),
          ...buses.flatMap((bus) =>
            busCases({ ...bus, audiences: size.audiences }, connections === JUDGED, measure),
          ),
        ],
        targets: connections === JUDGED ? TARGETS : [],
      };
    });
    await warmUp(load, [...Object.values(floors), ...buses.flatMap(({ bus }) => targets(bus))], options);
    return measureInTurn('publish', plans, options);
  },
};

async function startFloors(stage: Stage): Promise<Record<(typeof FLOORS)[number], Offered>> {
  const entries = FLOORS.map(async (name) => {
    const server = stage.helper<FloorCalls>('floor_server.ts');
    const port = await server.call('listen', name);
    return [name, { port, path: '/topics/widgets', credentials: ANYBODY, pids: { web: server.pid } }];
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** Makes a topic for each size of audience. */
async function subscribe(bus: Bus, audiences: readonly number[]): Promise<void> {
  for (const count of audiences) {
    await bus.audience(count, { topics: [topicFor(count)], callback: NOWHERE, timeout: FAR_MS, max: 100 });
  }
  await bus.store.keep();
}

function topicFor(audience: number): string {
  return `topic_of_${audience}`;
}

function targets(bus: Bus, audience = 1): Offered[] {
  return SCHEMES.map((scheme) => ({
    port: bus.port,
    path: `/topics/${topicFor(audience)}`,
    credentials: { scheme, ...bus.publisher },
    pids: { web: bus.web.pid, redis: bus.redis.pid },
  }));
}

async function warmUp(load: Helper<LoadCalls>, all: Offered[], { quick }: Options): Promise<void> {
  for (const target of all) await measureLoad(load, target, JUDGED, quick ? 100 : 10_000);
}

function rubyCases(): Case[] {
  return [...RUBY_ACCEPTS].map(([audience, eventsPerSecond]) => ({
    row: rubyRow(audience),
    measure: async () => ({ eventsPerSecond }),
  }));
}

function rubyRow(audience: number): string {
  return `${RUBY}, ${counted(audience, 'subscriber')}`;
}

interface Measuring {
  name: string;
  bus: Bus;
  /** The names of the buses that this bus is compared with. */
  others: string[];
  audiences: readonly number[];
}

function busCases(
  { name, bus, others, audiences }: Measuring,
  judged: boolean,
  measure: (target: Offered, audience: number) => Promise<Figures>,
): Case[] {
  return SCHEMES.flatMap((scheme, at) => {
    let alone: number | undefined;
    return audiences.map((audience): Case => {
      const suffix = `${scheme}, ${counted(audience, 'subscriber')}`;
      return {
        row: `${name}, ${suffix}`,
        floors: [
          ...FLOORS,
          ...others.map((other) => `${other}, ${suffix}`),
          ...(judged && scheme === 'basic' && RUBY_ACCEPTS.has(audience) ? [rubyRow(audience)] : []),
        ],
        measure: async () => {
          await bus.store.restore();
          const figures = await measure(targets(bus, audience)[at] as Offered, audience);
          const { redisMicros = 0 } = figures;
          if (audience === 1) alone = redisMicros;
          if (audience === 1 || alone === undefined) return figures;
          return { ...figures, redisMicrosMore: (redisMicros - alone) / (audience - 1) };
        },
      };
    });
  });
}

async function measureLoad(
  load: Helper<LoadCalls>,
  { pids, ...target }: Offered,
  connections: number,
  requests: number,
): Promise<Figures> {
  const plan = { ...target, connections, body: EVENT };
  await load.call('run', { ...plan, requests: Math.ceil(requests / 10) }); // warms up
  const used = cpuSince(pids);
  const { seconds, p50Ms, p99Ms } = await load.call('run', { ...plan, requests });
  const { web, redis } = used();
  return {
    eventsPerSecond: requests / seconds,
    webMicros: web / requests,
    ...(redis !== undefined && { redisMicros: redis / requests }),
    p50Ms,
    p99Ms,
  };
}

const TARGETS: Target[] = [
  {
    text: 'web CPU an event ≤ 1.25 × the Express floor with Basic',
    bars: [{ row: 'bus, basic, 1 subscriber', floor: 'Express', metric: 'webMicros', max: 1.25 }],
  },
  {
    text: 'web CPU an event ≤ 1.75 × the Express floor with Digest',
    bars: [{ row: 'bus, digest, 1 subscriber', floor: 'Express', metric: 'webMicros', max: 1.75 }],
  },
  {
    text: 'Redis CPU ≤ 2.5 µs an event with one subscriber',
    bars: [{ row: 'bus, basic, 1 subscriber', metric: 'redisMicros', max: 2.5 }],
  },
  ...[10, 100].map((audience) => ({
    text: `Redis CPU ≤ 0.6 µs more an event for each further subscriber, of ${audience}`,
    bars: [{ row: `bus, basic, ${audience} subscribers`, metric: 'redisMicrosMore' as const, max: 0.6 }],
  })),
  ...[25, 90].map((min, index) => {
    const audience = [...RUBY_ACCEPTS.keys()][index] ?? 0;
    return {
      text: `${min} × the events/s of the Ruby Routemaster, ${counted(audience, 'subscriber')}`,
      bars: [
        {
          row: `bus, basic, ${counted(audience, 'subscriber')}`,
          floor: rubyRow(audience),
          metric: 'eventsPerSecond' as const,
          min,
        },
      ],
    };
  }),
];
