import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { type Bus, FAR_MS, NOWHERE, startBuses } from '../bus.ts';
import { type Case, measureInTurn, type Part } from '../part.ts';
import type { ClientLoadCalls } from '../processes/client_load.ts';
import type { Figures } from '../result.ts';
import { TOPIC } from '../workload.ts';

const CALLERS = 64;
const FULL = { client: 200_000, fetch: 20_000 };
const QUICK: typeof FULL = { client: 500, fetch: 200 };

/** Single `publish` calls of `@routemaster/client`, without a worker. */
export const client: Part = {
  name: 'client',
  title: 'single publish calls of @routemaster/client; beside a fetch for each event',
  run: async (stage, options) => {
    const events = options.quick ? QUICK : FULL;
    const load = stage.helper<ClientLoadCalls>('client_load.ts');
    const buses = await startBuses(stage, options);
    for (const { bus } of buses) {
      await bus.audience(1, { topics: [TOPIC], callback: NOWHERE, timeout: FAR_MS, max: 100 });
      await bus.store.keep();
    }
    const cases = buses.flatMap(({ name, bus }): Case[] => {
      const row = (by: 'fetch' | 'client') => `${name}, by ${by}`;
      return [
        { row: row('fetch'), measure: () => measure(load, bus, 'fetch', events.fetch) },
        {
          row: row('client'),
          floors: [row('fetch')],
          measure: () => measure(load, bus, 'client', events.client),
        },
      ];
    });
    return measureInTurn('client', [{ ...PLAN, cases }], options);
  },
};

const PLAN = {
  title: `client: single publishes, ${CALLERS} under way, Basic, one subscriber`,
  notes: ['latency from call to resolution; client CPU is that of the publishing process'],
  targets: [
    {
      text: 'publish calls a second ≥ 5 × a fetch for each event',
      bars: [{ row: 'bus, by client', floor: 'bus, by fetch', metric: 'eventsPerSecond' as const, min: 5 }],
    },
  ],
};

async function measure(
  load: Helper<ClientLoadCalls>,
  { port, publisher, web, redis, store }: Bus,
  by: 'client' | 'fetch',
  events: number,
): Promise<Figures> {
  await store.restore();
  const plan = { port, credentials: publisher, by, callers: CALLERS };
  await load.call('run', { ...plan, events: Math.ceil(events / 10) }); // warms up
  const used = cpuSince({ client: load.pid, web: web.pid, redis: redis.pid });
  const { seconds, p50Ms, p99Ms } = await load.call('run', { ...plan, events });
  const cpu = used();
  return {
    eventsPerSecond: events / seconds,
    clientMicros: cpu.client / events,
    webMicros: cpu.web / events,
    redisMicros: cpu.redis / events,
    p50Ms,
    p99Ms,
  };
}
