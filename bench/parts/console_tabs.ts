import { setTimeout as sleep } from 'node:timers/promises';
import { BusClient } from '../../harness/http/bus_client.ts';
import { cpuSince, percentOfCore } from '../../harness/measuring/cpu.ts';
import { Bus, FAR_MS, NOWHERE } from '../bus.ts';
import { measureInTurn, type Part } from '../part.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted, EVENT, TOPIC } from '../workload.ts';
import { loginToConsole } from './console.ts';

const FULL = { subscribers: 100, windowMs: 15_000, warmUp: 30 };
const QUICK: typeof FULL = { subscribers: 2, windowMs: 500, warmUp: 1 };
/** Batches of each subscriber. */
const BATCHES = 3;
/** Time that `console.js` waits between two refreshes. */
const REFRESH_MS = 2000;
const MAX_PERCENT = 2;
const NOBODY = 'nobody looks';
/** Time between two refreshes of plots, as `plots.ts` has it. */
const PLOTS_MS = 10_000;
/** A part of a page that a tab requests again and again. */
interface Refresh {
  path: string;
  everyMs: number;
}

const listing = (path: string): Refresh[] => [{ path, everyMs: REFRESH_MS }];
const plotted = (path: string): Refresh[] => [
  { path: `${path}?part=now`, everyMs: REFRESH_MS },
  { path: `${path}?part=plots`, everyMs: PLOTS_MS },
];
/** The pages that ten people look at. */
const TABS: readonly Refresh[][] = [
  ...[plotted(''), plotted(''), plotted(''), plotted(''), plotted(`/topics/${TOPIC}`)],
  ...[listing('/subscribers'), listing('/subscribers'), listing('/deliveries'), listing('/deliveries')],
  listing('/jobs'),
];

/**
 * The CPU that open tabs of the console take from the web process and from Redis. A web process that publishes as fast
 * as it can uses a whole core, so a share of a core is the same share of its publishing rate.
 */
export const consoleTabs: Part = {
  name: 'console_tabs',
  title: 'CPU that ten open tabs of the console take',
  run: async (stage, options) => {
    const { subscribers, windowMs, warmUp } = options.quick ? QUICK : FULL;
    const { bus, cookie } = await prepare(stage, subscribers);
    const url = `http://127.0.0.1:${bus.port}/console`;
    // The measurement begins in the state after an hour, when all code is compiled.
    for (let n = 0; n < warmUp; n++) for (const { path } of TABS.flat()) await ask(url + path, cookie);
    const measure = async (open: readonly Refresh[][]): Promise<Figures> => {
      const closing = new AbortController();
      const looking = Promise.all(
        open.flatMap((tab, index) =>
          tab.map((refresh) => look({ url, cookie, ...refresh }, index / open.length, closing.signal)),
        ),
      );
      const used = cpuSince({ web: bus.web.pid, redis: bus.redis.pid });
      await sleep(windowMs);
      const { web, redis } = used();
      closing.abort();
      await looking;
      return { webPercent: percentOfCore(web, windowMs), redisPercent: percentOfCore(redis, windowMs) };
    };
    const ten = counted(TABS.length, 'tab');
    const plan = {
      title: 'console: ten people look',
      notes: [
        `over ${windowMs / 1000} s; CPU as a share of one core; ${counted(subscribers, 'subscriber')}`,
        'four tabs show the overview, the others subscribers, deliveries, a topic and jobs',
      ],
      cases: [
        { row: NOBODY, measure: () => measure([]) },
        { row: ten, floors: [NOBODY], measure: () => measure(TABS) },
      ],
      targets: [
        {
          text: `ten open tabs take ≤ ${MAX_PERCENT} % of a core of web`,
          bars: [{ row: ten, metric: 'webPercent' as const, max: MAX_PERCENT }],
        },
      ],
    };
    return measureInTurn('console', [plan], options);
  },
};

/** Starts a bus with subscribers of one topic, whose batches wait. Returns it with the cookie of a session of root. */
async function prepare(stage: Stage, subscribers: number): Promise<{ bus: Bus; cookie: string }> {
  const bus = await Bus.start(stage);
  const topic = new BusClient(`http://127.0.0.1:${bus.port}`, bus.publisher);
  await bus.audience(subscribers, { topics: [TOPIC], callback: NOWHERE, timeout: FAR_MS, max: 1 });
  for (let n = 0; n < BATCHES; n++) await topic.call('POST', `/topics/${TOPIC}`, JSON.parse(EVENT));
  return { bus, cookie: await loginToConsole(bus.port) };
}

interface Looking extends Refresh {
  url: string;
  cookie: string;
}

/**
 * Asks for a part of a page every `everyMs`, as a tab does, and waits for each answer before it asks again. The first
 * request comes after the fraction `phase` (0 to 1) of this interval. Ends when `signal` is aborted.
 */
async function look(
  { url, path, everyMs, cookie }: Looking,
  phase: number,
  signal: AbortSignal,
): Promise<void> {
  let nextMs = performance.now() + phase * everyMs;
  for (;;) {
    await sleep(Math.max(0, nextMs - performance.now()), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    await ask(url + path, cookie);
    nextMs += everyMs;
  }
}

async function ask(url: string, cookie: string): Promise<void> {
  const response = await fetch(url, { headers: { cookie, 'hx-request': 'true', 'accept-encoding': 'gzip' } });
  await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`${url} answered ${response.status}`);
}
