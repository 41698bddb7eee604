import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { type Bus, FAR_MS, NOWHERE, startBuses } from '../bus.ts';
import { type Case, measureInTurn, type Part } from '../part.ts';
import type { FloorCalls } from '../processes/floor_server.ts';
import type { LoadCalls, LoadPlan } from '../processes/load.ts';
import type { Figures } from '../result.ts';
import { bulk as body, counted, FORMATS, type Format, TOPIC } from '../workload.ts';

const CONNECTIONS = 16;
const SIZES = [100, 1000];
const FULL = { events: 300_000 };
const QUICK: typeof FULL = { events: 4_000 };
const KINDS = FORMATS.flatMap((format) => SIZES.map((size) => ({ format, size })));

/** Publishes many events in each request, to one web process. */
export const bulk: Part = {
  name: 'bulk',
  title: 'arrays and NDJSON of 100 and 1,000 events; beside node:http',
  run: async (stage, options) => {
    const { events } = options.quick ? QUICK : FULL;
    const load = stage.helper<LoadCalls>('load.ts');
    const server = stage.helper<FloorCalls>('floor_server.ts');
    const port = await server.call('listen', 'node:http');
    const buses = await startBuses(stage, options);
    for (const { bus } of buses) await subscribe(bus);
    const floor = { port, credentials: { scheme: 'basic', token: 'billing', secret: 'x' } as const };
    const cases = KINDS.flatMap((kind): Case[] => [
      {
        row: `node:http, ${named(kind)}`,
        measure: () => measure(load, floor, kind, events, { web: server.pid }),
      },
      ...buses.map(({ name, bus, others }) => ({
        row: `${name}, ${named(kind)}`,
        floors: ['node:http', ...others].map((other) => `${other}, ${named(kind)}`),
        measure: async () => {
          await bus.store.restore();
          return measure(load, bus.target, kind, events, { web: bus.web.pid, redis: bus.redis.pid });
        },
      })),
    ]);
    return measureInTurn('bulk', [{ ...PLAN, cases }], options);
  },
};

const PLAN = {
  title: `bulk: many events a request, one web process, ${CONNECTIONS} connections, Basic, one subscriber`,
  notes: ['latency from request to answer'],
  targets: KINDS.map((kind) => ({
    text: `${named(kind)}: web CPU ≤ 2.4 µs an event`,
    bars: [{ row: `bus, ${named(kind)}`, metric: 'webMicros' as const, max: 2.4 }],
  })),
};

function named({ format, size }: { format: Format; size: number }): string {
  return `${format} of ${counted(size, 'event')}`;
}

async function subscribe(bus: Bus): Promise<void> {
  await bus.audience(1, { topics: [TOPIC], callback: NOWHERE, timeout: FAR_MS, max: 100 });
  await bus.store.keep();
}

async function measure(
  load: Helper<LoadCalls>,
  target: Pick<LoadPlan, 'port' | 'credentials'>,
  { format, size }: { format: Format; size: number },
  events: number,
  pids: { web: number; redis?: number },
): Promise<Figures> {
  const plan = { ...target, path: `/topics/${TOPIC}`, connections: CONNECTIONS, ...body(format, size) };
  const requests = Math.ceil(events / size);
  await load.call('run', { ...plan, requests: Math.ceil(requests / 5) }); // warms up
  const used = cpuSince(pids);
  const { seconds, p50Ms, p99Ms } = await load.call('run', { ...plan, requests });
  const { web, redis } = used();
  const measured = requests * size;
  return {
    eventsPerSecond: measured / seconds,
    webMicros: web / measured,
    ...(redis !== undefined && { redisMicros: redis / measured }),
    p50Ms,
    p99Ms,
  };
}
