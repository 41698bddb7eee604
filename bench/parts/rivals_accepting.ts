import { cpuSince } from '../../harness/measuring/cpu.ts';
import type { Helper } from '../../harness/measuring/helper.ts';
import { type Bus, FAR_MS, NOWHERE, startBuses } from '../bus.ts';
import type { Options } from '../options.ts';
import type { Case, Plan } from '../part.ts';
import type { LoadCalls, LoadPlan } from '../processes/load.ts';
import type { Figures } from '../result.ts';
import {
  ARRAY,
  beside,
  busRow,
  JOB_AN_ARRAY,
  JOB_AN_EVENT,
  Rival,
  rivalRow,
  rivalVersion,
} from '../rival.ts';
import type { Stage } from '../stage.ts';
import { bulk, counted, EVENT } from '../workload.ts';

const FEW = 10;
const SINGLE = { body: EVENT, connections: 64, eventsOfRequest: 1 };
export const ARRAYS = { ...bulk('array', ARRAY), connections: 16, eventsOfRequest: ARRAY };
const ARRAYS_ROW = `arrays of ${ARRAY}`;

export type Work = Pick<LoadPlan, 'path' | 'body' | 'connections' | 'contentType'> & {
  eventsOfRequest: number;
  requests: number;
};

type Measure = (system: Bus | Rival, work: Work) => Promise<Figures>;

/** Plans the rows for accepting events, and for the memory that they take in Redis. No worker runs. */
export async function accepting(
  stage: Stage,
  load: Helper<LoadCalls>,
  size: { requests: number; arrays: number },
  options: Options,
): Promise<Plan[]> {
  const buses = await startBuses(stage, options);
  const callbacks = (count: number) => Array.from({ length: count }, () => NOWHERE);
  const rival = await Rival.start(stage, { one: callbacks(1), few: callbacks(FEW) });
  const subscription = { callback: NOWHERE, timeout: FAR_MS, max: ARRAY };
  for (const { bus } of buses) {
    await bus.audience(1, { topics: ['one'], ...subscription });
    await bus.audience(FEW, { topics: ['few'], ...subscription });
  }
  for (const { store } of [...buses.map(({ bus }) => bus), rival]) await store.keep();
  const each = (measure: Measure, work: Work) =>
    buses.map(({ bus, ...its }) => ({ ...its, measure: () => measure(bus, work) }));
  const singleCases = (measure: Measure): Case[] =>
    [1, FEW].flatMap((count) => {
      const work = { ...SINGLE, requests: size.requests, path: count === 1 ? '/topics/one' : '/topics/few' };
      return beside(`single events, ${counted(count, 'subscriber')}`, each(measure, work), {
        [JOB_AN_EVENT]: () => measure(rival, work),
      });
    });
  const arrayCases = (measure: Measure): Case[] => {
    const work = { ...ARRAYS, requests: size.arrays, path: '/topics/one' };
    return beside(ARRAYS_ROW, each(measure, work), {
      [JOB_AN_EVENT]: () => measure(rival, work),
      [JOB_AN_ARRAY]: () => measure(rival, { ...work, path: '/batches/one' }),
    });
  };
  const publishing: Measure = (system, work) => measureAccept(load, system, work);
  return [
    {
      title: 'rivals: accepting events',
      notes: [
        `${rivalVersion()} behind Express, Basic, one web process each; ${SINGLE.connections} connections, for arrays ${ARRAYS.connections}`,
        'a job an event: one for each event and subscriber, as its documentation has it; batches of them are for BullMQ Pro',
        'a job an array: one for each request and subscriber, which is then delivered as it was published',
      ],
      cases: [...singleCases(publishing), ...arrayCases(publishing)],
      targets: [
        {
          text: `arrays of ${ARRAY}: accepted at no less than the rate of BullMQ with a job an array`,
          bars: [
            {
              row: busRow(ARRAYS_ROW),
              floor: rivalRow(ARRAYS_ROW, JOB_AN_ARRAY),
              metric: 'eventsPerSecond',
              min: 1,
            },
          ],
        },
      ],
    },
    {
      title: 'rivals: what a queued event takes of Redis',
      notes: [`published in arrays of ${ARRAY}, to one subscriber; batches of the bus are of ${ARRAY}`],
      cases: arrayCases((system, work) => measureMemory(load, system, work)),
    },
  ];
}

async function measureAccept(
  load: Helper<LoadCalls>,
  system: Bus | Rival,
  { eventsOfRequest, requests, ...work }: Work,
): Promise<Figures> {
  await system.store.restore();
  const plan = { ...system.target, ...work };
  await load.call('run', { ...plan, requests: Math.ceil(requests / 5) }); // warms up
  const used = cpuSince({ web: system.web.pid, redis: system.redis.pid });
  const { seconds, p50Ms, p99Ms } = await load.call('run', { ...plan, requests });
  const { web, redis } = used();
  const events = requests * eventsOfRequest;
  return {
    eventsPerSecond: events / seconds,
    webMicros: web / events,
    redisMicros: redis / events,
    p50Ms,
    p99Ms,
  };
}

async function measureMemory(
  load: Helper<LoadCalls>,
  system: Bus | Rival,
  { eventsOfRequest, requests, ...work }: Work,
): Promise<Figures> {
  await system.store.restore();
  const before = await system.store.usedBytes();
  await load.call('run', { ...system.target, ...work, requests });
  return { bytes: ((await system.store.usedBytes()) - before) / (requests * eventsOfRequest) };
}
