import { type Bus, FAR_MS, TOPIC } from './bus.ts';
import { cpuMicros } from './cpu.ts';
import type { Helper } from './helper.ts';
import type { SenderCalls } from './processes/floor_sender.ts';
import type { LoadCalls, LoadPlan } from './processes/load.ts';
import type { Reached, SinkCalls } from './processes/sink.ts';
import type { Figures } from './result.ts';

/** What a worker process has unless told otherwise: 2 threads of 32 workers. */
export const CONNECTIONS = 64;
export const LATENCY = { perSecond: 200, requests: 600, connections: 16 };
const BULK = 1000;
/** So many at least, as CPU time is only counted in steps of 10 ms. */
const FLOOR_REQUESTS = 20_000;

const EVENT =
  '{"type":"update","url":"https://billing.example.com/invoices/1842201","timestamp":1767225600000}';
const STAMPED = EVENT.replace('}', ',"data":{"sentAtUs":0}}');
/** The same event as subscribers get it. */
const DELIVERED =
  '[{"topic":"widgets","type":"update","url":"https://billing.example.com/invoices/1842201","t":1767225600000,"data":{"sentAtUs":0}}]';

export interface DeliveryParts {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  sender: Helper<SenderCalls>;
  sinkPort: number;
}

/**
 * The worker delivers a tenth first, to warm up: a process that starts compiles for half a second. Then the subscriber
 * holds back its answers, which stops the worker, until the whole backlog is there.
 */
export async function measureBus(
  parts: DeliveryParts,
  bus: Bus,
  max: number,
  backlog: number,
): Promise<Figures> {
  const { sink } = parts;
  const callback = `http://127.0.0.1:${parts.sinkPort}/events`;
  await bus.forgetSubscriber();
  await bus.subscribe({ callback, timeout: FAR_MS, max });
  await sink.call('reset');
  const worker = bus.worker();
  const warmUp = Math.ceil(backlog / 10 / max) * max;
  await publishBacklog(parts, bus, warmUp);
  await sink.call('reach', warmUp);
  await bus.drained();
  await sink.call('reset');
  await sink.call('hold');
  await publishBacklog(parts, bus, backlog);
  const figures = await measureFrom(() => sink.call('release'), parts, backlog, worker.pid, bus.redis.pid);
  await bus.drained();
  await bus.subscribe({ callback, timeout: 0, max });
  const path = `/topics/${TOPIC}`;
  const credentials = { scheme: 'basic', ...bus.publisher } as const;
  const latency = await measureLatency(parts, { port: bus.port, path, body: STAMPED, credentials });
  await bus.drained();
  await worker.stop();
  return { ...figures, ...latency };
}

/** undici POSTs what the bus delivered last, over as many connections. */
export async function measureFloor(parts: DeliveryParts, max: number, backlog: number): Promise<Figures> {
  const { sink, sender, sinkPort: port } = parts;
  const requests = Math.max(FLOOR_REQUESTS, backlog / max);
  const events = requests * max;
  const request = await sink.call('sample');
  await sink.call('reset');
  const [figures] = await Promise.all([
    measureFrom(() => sink.call('reach', events / 10), parts, events, sender.pid),
    sender.call('send', { port, request, requests, connections: CONNECTIONS }),
  ]);
  const credentials = { scheme: 'basic', token: 'benchmark', secret: 'x' } as const;
  const latency = await measureLatency(parts, { port, path: '/events', body: DELIVERED, credentials });
  return { ...figures, ...latency };
}

async function publishBacklog({ load }: DeliveryParts, bus: Bus, events: number): Promise<void> {
  const plan = {
    port: bus.port,
    path: `/topics/${TOPIC}`,
    connections: 2,
    credentials: { scheme: 'basic', ...bus.publisher } as const,
  };
  const body = (size: number) => `[${Array.from({ length: size }, () => EVENT).join(',')}]`;
  const [requests, rest] = [Math.floor(events / BULK), events % BULK];
  if (requests > 0) await load.call('run', { ...plan, requests, body: body(BULK) });
  if (rest > 0) await load.call('run', { ...plan, requests: 1, body: body(rest) });
}

/** From what `start` has reached to the last event. */
async function measureFrom(
  start: () => Promise<Reached>,
  { sink }: DeliveryParts,
  events: number,
  workerPid: number,
  redisPid?: number,
): Promise<Figures> {
  const from = await start();
  const [worker, redis] = [cpuMicros(workerPid), redisPid ? cpuMicros(redisPid) : 0];
  const to = await sink.call('reach', events);
  const measured = to.events - from.events;
  return {
    eventsPerSecond: measured / ((to.atUs - from.atUs) / 1e6),
    workerMicros: (cpuMicros(workerPid) - worker) / measured,
    ...(redisPid && { redisMicros: (cpuMicros(redisPid) - redis) / measured }),
  };
}

async function measureLatency(
  { sink, load }: DeliveryParts,
  target: Pick<LoadPlan, 'port' | 'path' | 'body' | 'credentials'>,
): Promise<Figures> {
  await sink.call('reset', true);
  await load.call('run', { ...target, ...LATENCY });
  await sink.call('reach', LATENCY.requests);
  return sink.call('ages');
}
