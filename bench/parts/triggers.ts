import type { Helper } from '../../harness/measuring/helper.ts';
import { openStore } from '../../harness/redis/store.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import type { Partition } from '../../src/store/partition.ts';
import { Bus } from '../bus.ts';
import type { Options } from '../options.ts';
import { type Measured, measureInTurn } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { Stamps } from '../stamp.ts';
import { counted, STAMPED } from '../workload.ts';
import { inSlices } from './idle_triggers.ts';

const FULL = { perSecond: 50, events: 600, atOnce: 1000, warmUp: 200 };
const QUICK: typeof FULL = { perSecond: 100, events: 50, atOnce: 50, warmUp: 10 };
/** Time from the first call that stores a trigger to the first due time. All triggers must be stored by then. */
const AHEAD_MS = 3000;
const SINGLY = { topic: 'singly', max: 1 };
const TOGETHER = { topic: 'together', max: 100 };
const FLOOR = 'published';
const ONE_BY_ONE = 'each at a time of its own';

interface Parts {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  bus: Bus;
  store: Partition;
}

/** Measures how late triggers fire. */
export async function triggers(stage: Stage, options: Options): Promise<Measured[]> {
  const { perSecond, events, atOnce, warmUp } = options.quick ? QUICK : FULL;
  const sink = stage.helper<SinkCalls>('sink.ts');
  const load = stage.helper<LoadCalls>('load.ts');
  const callback = await sink.call('listen');
  const bus = await Bus.start(stage);
  for (const { topic, max } of [SINGLY, TOGETHER])
    await bus.audience(1, { topics: [topic], callback, timeout: 0, max });
  await bus.readyWorker();
  const parts: Parts = { load, sink, bus, store: await openStore(bus.redis.url) };
  const gapMs = 1000 / perSecond;
  await measurePublished(parts, warmUp, perSecond);
  for (const { topic } of [SINGLY, TOGETHER]) await measureTriggers(parts, topic, warmUp, gapMs);
  const all = `${counted(atOnce, 'trigger')} due at once`;
  const plan = {
    title: 'flow: from when a trigger was due to the receipt of its event',
    notes: [
      `${perSecond}/s; the floor is published then instead, by a POST that is due at that time`,
      'seconds: until the last of those that are due at once is received, in batches of 100',
    ],
    cases: [
      { row: FLOOR, measure: () => measurePublished(parts, events, perSecond) },
      {
        row: ONE_BY_ONE,
        floors: [FLOOR],
        measure: () => measureTriggers(parts, SINGLY.topic, events, gapMs),
      },
      { row: all, measure: () => measureTriggers(parts, TOGETHER.topic, atOnce, 0) },
    ],
    targets: [
      {
        text: 'triggers: late by ≤ 20 ms at p99 on an idle bus',
        bars: [{ row: ONE_BY_ONE, metric: 'lateP99Ms' as const, max: 20 }],
      },
      {
        text: `${all} are delivered within a second`,
        bars: [{ row: all, metric: 'seconds' as const, max: 1 }],
      },
    ],
  };
  return measureInTurn('flow', [plan], options).finally(() => parts.store.redis.disconnect());
}

async function measurePublished({ load, sink, bus }: Parts, requests: number, perSecond: number) {
  await sink.call('reset', true);
  const target = { ...bus.target, path: `/topics/${SINGLY.topic}`, connections: 1 };
  await load.call('run', { ...target, body: STAMPED, requests, perSecond });
  await sink.call('reach', requests);
  await bus.drained();
  return lateness(sink);
}

/** Measures triggers that are due once each, `gapMs` apart. */
async function measureTriggers(
  { sink, bus, store }: Parts,
  topic: string,
  count: number,
  gapMs: number,
): Promise<Figures> {
  const firstMs = Date.now() + AHEAD_MS;
  await sink.call('reset', true);
  const stamps = new Stamps();
  // The triggers are stored by a script. The API takes 50 calls a second of a client, so the first triggers would be
  // due before the last are stored.
  await inSlices(count, async (index) => {
    const at = firstMs + index * gapMs;
    await putTrigger(store, `${topic}_${index}`, {
      ...{ client: bus.publisher.token, topic, nextAt: at },
      timing: { schedule: { at }, start: 0, end: null, offset: 0 },
      data: JSON.stringify({ sentAtUs: stamps.at(at) }),
    });
  });
  if (Date.now() > firstMs) throw new Error('not all triggers were stored when the first was due');
  const { atUs } = await sink.call('reach', count);
  await bus.drained();
  const seconds = (atUs - stamps.at(firstMs + (count - 1) * gapMs)) / 1e6;
  return { ...(await lateness(sink)), ...(gapMs === 0 && { seconds }) };
}

async function lateness(sink: Helper<SinkCalls>): Promise<Figures> {
  const { p50Ms, p99Ms } = (await sink.call('ages')).all;
  return { lateP50Ms: p50Ms, lateP99Ms: p99Ms };
}
