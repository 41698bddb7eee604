import { basename } from 'node:path';
import { Bus, FAR_MS, OWN_TREE, TOPIC } from '../bus.ts';
import { cpuMicros } from '../cpu.ts';
import type { Helper } from '../helper.ts';
import type { Options } from '../options.ts';
import type { SenderCalls } from '../processes/floor_sender.ts';
import type { LoadCalls, LoadPlan } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import { announced } from '../progress.ts';
import type { Figures, Row, Table } from '../result.ts';
import type { Stage } from '../stage.ts';

/** Events of a backlog, by the size of its batches. */
const EVENTS = { 1: 50_000, 100: 400_000 };
/** What a worker process has unless told otherwise: 2 threads of 32 workers. */
const CONNECTIONS = 64;
const BULK = 1000;
const FLOOR = 'undici';
/** So many at least, as CPU time is only counted in steps of 10 ms. */
const FLOOR_REQUESTS = 20_000;
const LATENCY = { perSecond: 200, requests: 600, connections: 16 };

const EVENT =
  '{"type":"update","url":"https://billing.example.com/invoices/1842201","timestamp":1767225600000}';
const STAMPED = EVENT.replace('}', ',"data":{"sentAtUs":0}}');
/** The same event as subscribers get it. */
const DELIVERED =
  '[{"topic":"widgets","type":"update","url":"https://billing.example.com/invoices/1842201","t":1767225600000,"data":{"sentAtUs":0}}]';

interface Parts {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  sender: Helper<SenderCalls>;
  sinkPort: number;
}

interface Tree {
  row: Row;
  bus: Bus;
}

/** A backlog, published before the worker starts, and delivered as fast as it goes; then the latency of single events. */
export async function deliver(stage: Stage, options: Options): Promise<Table[]> {
  const sink = stage.helper<SinkCalls>('sink.ts');
  const parts: Parts = {
    load: stage.helper<LoadCalls>('load.ts'),
    sink,
    sender: stage.helper<SenderCalls>('floor_sender.ts'),
    sinkPort: await sink.call('listen'),
  };
  const trees = [OWN_TREE, ...(options.against ? [options.against] : [])];
  const buses = await Promise.all(trees.map((tree) => Bus.start(stage, tree)));
  const tables: Table[] = [];
  for (const max of [1, 100] as const) {
    const names = trees.map((tree, index) => (index === 0 ? 'bus' : `bus of ${basename(tree)}`));
    const rows = names.map(
      // This checkout's bus is compared with the other one, too.
      (name, index): Row => ({ name, floors: [FLOOR, ...names.slice(index + 1)], repetitions: [] }),
    );
    const table = buses.map((bus, index) => ({ bus, row: rows[index] as Row }));
    tables.push(await deliverInBatches(parts, table, max, options));
  }
  return tables;
}

async function deliverInBatches(
  parts: Parts,
  trees: Tree[],
  max: 1 | 100,
  { events = EVENTS[max], repetitions }: Options,
): Promise<Table> {
  const floor: Row = { name: FLOOR, repetitions: [] };
  // Batches that do not fill up would wait for their deadline, which is far away.
  const backlog = Math.ceil(events / max) * max;
  for (let repetition = 1; repetition <= repetitions; repetition++) {
    const what = (row: Row) => `deliver ${repetition}/${repetitions}, max ${max}: ${row.name}`;
    for (const { row, bus } of trees) {
      row.repetitions.push(await announced(what(row), () => measureBus(parts, bus, max, backlog)));
    }
    floor.repetitions.push(await announced(what(floor), () => measureFloor(parts, max, backlog)));
  }
  return {
    title: `deliver: batches of ${max}, one subscriber`,
    notes: [
      `${backlog.toLocaleString('en')} events a repetition, published before the worker starts; the first tenth is not measured`,
      `latency from publish to receipt at ${LATENCY.perSecond} events/s with timeout 0; of ${FLOOR}: of a POST to the subscriber itself`,
    ],
    rows: [floor, ...trees.map(({ row }) => row)],
  };
}

async function measureBus(parts: Parts, bus: Bus, max: number, events: number): Promise<Figures> {
  const callback = `http://127.0.0.1:${parts.sinkPort}/events`;
  await bus.forgetSubscriber();
  await bus.subscribe({ callback, timeout: FAR_MS, max });
  await publishBacklog(parts, bus, events);
  await parts.sink.call('reset');
  const worker = bus.worker();
  const figures = await measureSink(parts, events, worker.pid, bus.redis.pid);
  await bus.drained();
  await bus.subscribe({ callback, timeout: 0, max });
  const path = `/topics/${TOPIC}`;
  const credentials = { scheme: 'basic', ...bus.publisher } as const;
  const latency = await measureLatency(parts, { port: bus.port, path, body: STAMPED, credentials });
  await bus.drained();
  await worker.stop();
  return { ...figures, ...latency };
}

async function measureFloor(parts: Parts, max: number, backlog: number): Promise<Figures> {
  const { sink, sender, sinkPort: port } = parts;
  const requests = Math.max(FLOOR_REQUESTS, backlog / max);
  const request = await sink.call('sample');
  await sink.call('reset');
  const [figures] = await Promise.all([
    measureSink(parts, requests * max, sender.pid),
    sender.call('send', { port, request, requests, connections: CONNECTIONS }),
  ]);
  const credentials = { scheme: 'basic', token: 'benchmark', secret: 'x' } as const;
  const latency = await measureLatency(parts, { port, path: '/events', body: DELIVERED, credentials });
  return { ...figures, ...latency };
}

async function publishBacklog({ load }: Parts, bus: Bus, events: number): Promise<void> {
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

/** From the end of the first tenth, in which everything starts and warms up, to the last event. */
async function measureSink(
  { sink }: Parts,
  events: number,
  workerPid: number,
  redisPid?: number,
): Promise<Figures> {
  const from = await sink.call('reach', events / 10);
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
  { sink, load }: Parts,
  target: Pick<LoadPlan, 'port' | 'path' | 'body' | 'credentials'>,
): Promise<Figures> {
  await sink.call('reset', true);
  await load.call('run', { ...target, ...LATENCY });
  await sink.call('reach', LATENCY.requests);
  return sink.call('ages');
}
