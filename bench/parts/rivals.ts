import { cpuSince } from '../../harness/cpu.ts';
import type { Helper } from '../../harness/helper.ts';
import { Bus, FAR_MS, NOWHERE, until } from '../bus.ts';
import { eventsBetween } from '../filling.ts';
import { type Case, measureInTurn, type Part, type Plan } from '../part.ts';
import type { LoadCalls, LoadPlan } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import { installRivals, Rival, rivalVersion } from '../rival.ts';
import type { Running, Stage } from '../stage.ts';
import { bulk, counted, EVENT, STAMPED } from '../workload.ts';

const FULL = { requests: 15_000, arrays: 300, delivered: 20_000, batches: 600, perSecond: 100, seconds: 6 };
const QUICK: typeof FULL = {
  requests: 200,
  arrays: 4,
  delivered: 300,
  batches: 80,
  perSecond: 100,
  seconds: 1,
};
type Size = typeof FULL;

const ARRAY = 100;
const FEW = 10;
/** What a worker process of the bus has. BullMQ gets as many deliveries in flight. */
const CONCURRENCY = 64;
const SINGLE = { body: EVENT, connections: 64, eventsOfRequest: 1 };
const ARRAYS = { ...bulk('array', ARRAY), connections: 16, eventsOfRequest: ARRAY };
const JOB_AN_EVENT = 'a job an event';
const JOB_AN_ARRAY = 'a job an array';

type Work = Pick<LoadPlan, 'path' | 'body' | 'connections' | 'contentType'> & {
  eventsOfRequest: number;
  requests: number;
};

/** The same work done with BullMQ, on the same machine with the same Redis. */
export const rivals: Part = {
  name: 'rivals',
  title: 'the same work done with BullMQ',
  run: async (stage, options) => {
    installRivals();
    const size = options.quick ? QUICK : FULL;
    const load = stage.helper<LoadCalls>('load.ts');
    const plans = [...(await accepting(stage, load, size)), ...(await delivering(stage, load, size))];
    return measureInTurn('rivals', plans, options);
  },
};

/** A row of the bus beside those of BullMQ, where it has several ways; each in multiples of the other. */
function beside(name: string, bus: Case['measure'], rival: Record<string, Case['measure']>): Case[] {
  const own = `bus, ${name}`;
  const its = Object.entries(rival).map(([way, measure]) => ({ row: `BullMQ, ${name}, ${way}`, measure }));
  return [
    { row: own, floors: its.map(({ row }) => row), measure: bus },
    ...its.map((each) => ({ ...each, floors: [own] })),
  ];
}

/** On a bus and a BullMQ without workers. */
async function accepting(stage: Stage, load: Helper<LoadCalls>, size: Size): Promise<Plan[]> {
  const bus = await Bus.start(stage);
  const callbacks = (count: number) => Array.from({ length: count }, () => NOWHERE);
  const rival = await Rival.start(stage, { one: callbacks(1), few: callbacks(FEW) });
  const subscription = { callback: NOWHERE, timeout: FAR_MS, max: ARRAY };
  await bus.audience(1, { topics: ['one'], ...subscription });
  await bus.audience(FEW, { topics: ['few'], ...subscription });
  for (const { store } of [bus, rival]) await store.keep();
  const singles = { ...SINGLE, requests: size.requests };
  const arrays = { ...ARRAYS, requests: size.arrays };
  const cases = (measure: (system: Bus | Rival, work: Work) => Promise<Figures>) => {
    const one = (work: Omit<Work, 'path'>, path = '/topics/one') => ({ ...work, path });
    return {
      singles: [1, FEW].flatMap((count) => {
        const path = count === 1 ? '/topics/one' : '/topics/few';
        return beside(
          `single events, ${counted(count, 'subscriber')}`,
          () => measure(bus, one(singles, path)),
          { [JOB_AN_EVENT]: () => measure(rival, one(singles, path)) },
        );
      }),
      arrays: beside(`arrays of ${ARRAY}`, () => measure(bus, one(arrays)), {
        [JOB_AN_EVENT]: () => measure(rival, one(arrays)),
        [JOB_AN_ARRAY]: () => measure(rival, one(arrays, '/batches/one')),
      }),
    };
  };
  const publishing = cases((system, work) => measureAccept(load, system, work));
  return [
    {
      title: 'rivals: accepting events',
      notes: [
        `${rivalVersion()} behind Express, Basic, one web process each; ${SINGLE.connections} connections, for arrays ${ARRAYS.connections}`,
        'a job an event: one for each event and subscriber, as its documentation has it; batches of them are for BullMQ Pro',
        'a job an array: one for each request and subscriber, which is then delivered as it was published',
      ],
      cases: [...publishing.singles, ...publishing.arrays],
    },
    {
      title: 'rivals: what a queued event takes of Redis',
      notes: [`published in arrays of ${ARRAY}, to one subscriber; batches of the bus are of ${ARRAY}`],
      cases: cases((system, work) => measureMemory(load, system, work)).arrays,
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

interface Delivering {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  system: Bus | Rival;
  worker: Running;
}

/** On a bus and a BullMQ with a worker process each. */
async function delivering(stage: Stage, load: Helper<LoadCalls>, size: Size): Promise<Plan[]> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const callback = `http://127.0.0.1:${await sink.call('listen')}/events`;
  const bus = await Bus.start(stage);
  const rival = await Rival.start(stage, { singly: [callback], batched: [callback], prompt: [callback] });
  await bus.audience(1, { topics: ['singly'], callback, timeout: FAR_MS, max: 1 });
  await bus.audience(1, { topics: ['batched'], callback, timeout: FAR_MS, max: ARRAY });
  await bus.audience(1, { topics: ['prompt'], callback, timeout: 0, max: 1 });
  const own = { load, sink, system: bus, worker: await bus.readyWorker() };
  const its = { load, sink, system: rival, worker: await rival.readyWorker(CONCURRENCY) };
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
        ...beside('event by event', () => measureBacklog(own, singles), {
          [JOB_AN_EVENT]: () => measureBacklog(its, singles),
        }),
        ...beside(`batches of ${ARRAY}`, () => measureBacklog(own, batched), {
          [JOB_AN_ARRAY]: () => measureBacklog(its, { ...batched, path: '/batches/batched' }),
        }),
      ],
    },
    {
      title: 'rivals: from publish to receipt',
      notes: [`${size.perSecond} events/s, open loop, event by event; the bus with timeout 0 and max 1`],
      cases: beside('event by event', () => measureLatency(own, size), {
        [JOB_AN_EVENT]: () => measureLatency(its, size),
      }),
    },
  ];
}

/** As the part `deliver` does it. */
async function measureBacklog(
  { load, sink, system, worker }: Delivering,
  { eventsOfRequest, requests, ...work }: Work,
): Promise<Figures> {
  const plan = { ...system.target, ...work };
  const [warmUp, events] = [Math.ceil(requests / 5), requests].map((count) => count * eventsOfRequest);
  await sink.call('reset');
  await load.call('run', { ...plan, requests: Math.ceil(requests / 5) });
  await sink.call('reach', warmUp ?? 0);
  await quiet(system);
  await sink.call('reset');
  await sink.call('hold');
  await load.call('run', { ...plan, requests });
  const from = await sink.call('release');
  const used = cpuSince({ worker: worker.pid, redis: system.redis.pid });
  const to = await sink.call('reach', events ?? 0);
  const its = used();
  await quiet(system);
  const measured = eventsBetween(from, to);
  return {
    eventsPerSecond: measured / ((to.atUs - from.atUs) / 1e6),
    workerMicros: its.worker / measured,
    redisMicros: its.redis / measured,
  };
}

/** Resolves when all that was delivered is acknowledged. */
async function quiet(system: Bus | Rival): Promise<void> {
  if (system instanceof Bus) return system.drained();
  await until(async () => (await system.unfinished()) === 0, 10_000, 'jobs were delivered, and stayed');
}

async function measureLatency(
  { load, sink, system, worker }: Delivering,
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
