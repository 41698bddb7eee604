import { basename } from 'node:path';
import { Bus, FAR_MS, OWN_TREE, TOPIC } from '../bus.ts';
import { cpuMicros } from '../cpu.ts';
import type { Helper } from '../helper.ts';
import type { Options } from '../options.ts';
import type { LoadCredentials } from '../processes/authorization.ts';
import type { FloorCalls } from '../processes/floor_server.ts';
import type { LoadCalls } from '../processes/load.ts';
import { announced } from '../progress.ts';
import type { Figures, Row, Table } from '../result.ts';
import type { Stage } from '../stage.ts';

const EVENTS = 100_000;
const CONNECTIONS = 64;
const BODY =
  '{"type":"update","url":"https://billing.example.com/invoices/1842201","timestamp":1767225600000}';
/** The floors look at no credentials; they only read the header. */
const ANYBODY = { token: 'billing--V1StGXR8Z5jdHi6BmyTQ', secret: 'Uakgb_J5m9g-0JDMbcJqLJ_Uakgb_J5m' };
const FLOORS = ['node:http', 'Express'] as const;

interface Target {
  row: Row;
  port: number;
  credentials: LoadCredentials;
  webPid: number;
  redisPid?: number;
}

/** Single events, with one subscriber to which nothing is delivered meanwhile: no worker runs. */
export async function publish(stage: Stage, options: Options): Promise<Table[]> {
  const load = stage.helper<LoadCalls>('load.ts');
  const other = options.against && ` of ${basename(options.against)}`;
  const targets = [...(await floors(stage)), ...(await busTargets(stage, OWN_TREE, '', other))];
  if (options.against) targets.push(...(await busTargets(stage, options.against, other ?? '')));
  const events = options.events ?? EVENTS;
  for (let repetition = 1; repetition <= options.repetitions; repetition++) {
    for (const target of targets) {
      const what = `publish ${repetition}/${options.repetitions}: ${target.row.name}`;
      target.row.repetitions.push(await announced(what, () => measure(load, target, events)));
    }
  }
  return [
    {
      title: `publish: single events, ${CONNECTIONS} connections, one subscriber`,
      notes: [`${events.toLocaleString('en')} events a repetition; latency from request to answer`],
      rows: targets.map(({ row }) => row),
    },
  ];
}

async function floors(stage: Stage): Promise<Target[]> {
  return Promise.all(
    FLOORS.map(async (name) => {
      const server = stage.helper<FloorCalls>('floor_server.ts');
      const port = await server.call('listen', name);
      return {
        row: { name, repetitions: [] },
        port,
        credentials: { scheme: 'basic' as const, ...ANYBODY },
        webPid: server.pid,
      };
    }),
  );
}

/** `other`: the suffix of the rows that these are compared with beside the floors. */
async function busTargets(stage: Stage, tree: string, suffix: string, other?: string): Promise<Target[]> {
  const bus = await Bus.start(stage, tree);
  await bus.subscribe({ callback: 'https://search.example.com/events', timeout: FAR_MS, max: 100 });
  return (['basic', 'digest'] as const).map((scheme) => ({
    row: {
      name: `bus${suffix}, ${scheme}`,
      floors: [...FLOORS, ...(other === undefined ? [] : [`bus${other}, ${scheme}`])],
      repetitions: [],
    },
    port: bus.port,
    credentials: { scheme, ...bus.publisher },
    webPid: bus.web.pid,
    redisPid: bus.redis.pid,
  }));
}

async function measure(load: Helper<LoadCalls>, target: Target, events: number): Promise<Figures> {
  const { port, credentials, webPid, redisPid } = target;
  const plan = { port, path: `/topics/${TOPIC}`, connections: CONNECTIONS, body: BODY, credentials };
  await load.call('run', { ...plan, requests: Math.ceil(events / 10) }); // warms up
  const [web, redis] = [cpuMicros(webPid), redisPid ? cpuMicros(redisPid) : 0];
  const { seconds, p50Ms, p99Ms } = await load.call('run', { ...plan, requests: events });
  return {
    eventsPerSecond: events / seconds,
    webMicros: (cpuMicros(webPid) - web) / events,
    ...(redisPid && { redisMicros: (cpuMicros(redisPid) - redis) / events }),
    p50Ms,
    p99Ms,
  };
}
