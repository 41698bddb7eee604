import type { Helper } from '../../harness/measuring/helper.ts';
import { type Bus, startBuses } from '../bus.ts';
import type { Options } from '../options.ts';
import { type Measured, measureInTurn } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { nowMicros, stampedAt } from '../stamp.ts';
import { counted, STAMPED } from '../workload.ts';

const FULL = { perSecond: 50, events: 1000, warmUp: 500 };
const QUICK: typeof FULL = { perSecond: 100, events: 50, warmUp: 50 };
type Size = typeof FULL;

/** Number of connections: so few that each is always in use, because the bus closes a connection without requests. */
const CONNECTIONS = 1;
/** Time from the publish of a delayed event until it is due. */
const AHEAD_MS = 1500;
/** Maximum delayed events of a request. */
const PER_REQUEST = 500;
const AT_ONCE = 1000;
const SINGLY = { topic: 'singly', max: 1 };
const TOGETHER = { topic: 'together', max: 100 };
const FLOOR = 'without a delay';
const ONE_BY_ONE = 'each at a time of its own';
const ALL = `${counted(AT_ONCE, 'event')} due at once`;

interface Parts {
  load: Helper<LoadCalls>;
  sink: Helper<SinkCalls>;
  bus: Bus;
}

/** Measures how late delayed events come. */
export async function delayedEvents(stage: Stage, options: Options): Promise<Measured[]> {
  const size = options.quick ? QUICK : FULL;
  const sink = stage.helper<SinkCalls>('sink.ts');
  const load = stage.helper<LoadCalls>('load.ts');
  const callback = await sink.call('listen');
  const [started] = await startBuses(stage, { ...options, against: undefined });
  const parts: Parts = { load, sink, bus: started?.bus as Bus };
  for (const { topic, max } of [SINGLY, TOGETHER])
    await parts.bus.audience(1, { topics: [topic], callback, timeout: 0, max });
  await parts.bus.readyWorker();
  await warmUp(parts, size);
  const plan = {
    title: 'flow: from when a delayed event was due to its receipt',
    notes: [
      `each is published ${AHEAD_MS} ms ahead; those with a time of their own at ${size.perSecond}/s, by \`delay\`, which`,
      'counts from when Redis gets it: what the POST takes is part of how late they are; the floor has no delay',
      'seconds: until the last of those that are due at once is received, in batches of 100',
    ],
    cases: [
      { row: FLOOR, measure: () => measureSingly(parts, size, 0) },
      { row: ONE_BY_ONE, floors: [FLOOR], measure: () => measureSingly(parts, size, AHEAD_MS) },
      { row: ALL, measure: () => measureTogether(parts) },
    ],
    targets: TARGETS,
  };
  return measureInTurn('flow', [plan], options);
}

async function warmUp({ load, sink, bus }: Parts, { warmUp: requests }: Size): Promise<void> {
  await sink.call('reset');
  const plan = { ...bus.target, path: `/topics/${SINGLY.topic}`, connections: CONNECTIONS, requests };
  await load.call('run', { ...plan, body: withTime('"delay":100'), perSecond: 500 });
  await sink.call('reach', requests);
}

async function measureSingly(parts: Parts, { perSecond, events }: Size, delayMs: number): Promise<Figures> {
  const { load, sink, bus } = parts;
  await sink.call('reset', true);
  const plan = { ...bus.target, path: `/topics/${SINGLY.topic}`, connections: CONNECTIONS };
  const body = withTime(`"delay":${delayMs}`);
  await load.call('run', { ...plan, body, requests: events, perSecond });
  await sink.call('reach', events);
  const { p50Ms, p99Ms } = (await sink.call('ages')).all;
  await bus.drained();
  return { lateP50Ms: p50Ms - delayMs, lateP99Ms: p99Ms - delayMs };
}

async function measureTogether({ load, sink, bus }: Parts): Promise<Figures> {
  await sink.call('reset', true);
  // `Date.now()` leaves out fractions of a millisecond, so the event is due up to 1 ms before AHEAD_MS have passed.
  // `dueUs` is the earliest of these moments, so it is at most 1 ms too early.
  const dueUs = nowMicros() + (AHEAD_MS - 1) * 1000;
  const event = stampedAt(withTime(`"at":${Date.now() + AHEAD_MS}`), dueUs);
  const body = `[${Array.from({ length: PER_REQUEST }, () => event).join(',')}]`;
  const requests = AT_ONCE / PER_REQUEST;
  const plan = { ...bus.target, path: `/topics/${TOGETHER.topic}`, connections: requests };
  await load.call('run', { ...plan, body, requests });
  const { atUs } = await sink.call('reach', AT_ONCE);
  const { p50Ms, p99Ms } = (await sink.call('ages')).all;
  await bus.drained();
  return { lateP50Ms: p50Ms, lateP99Ms: p99Ms, seconds: (atUs - dueUs) / 1e6 };
}

/** Returns a delayed event, whose time is a member such as `"delay":100`. */
function withTime(member: string): string {
  return STAMPED.replace(/"timestamp":\d+/, member);
}

const TARGETS = [
  {
    text: 'delayed events: late by ≤ 20 ms at p99 on an idle bus',
    bars: [{ row: ONE_BY_ONE, metric: 'lateP99Ms' as const, max: 20 }],
  },
  {
    text: `${ALL} are delivered within a second`,
    bars: [{ row: ALL, metric: 'seconds' as const, max: 1 }],
  },
];
