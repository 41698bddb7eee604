import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../../harness/measuring/statistics.ts';
import { ROOT_KEY } from '../bus.ts';
import { startFullBus } from '../full_bus.ts';
import type { Options } from '../options.ts';
import { measureInTurn, type Part, type Plan } from '../part.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted } from '../workload.ts';

const FULL = { queued: 1_000_000, records: 0, subscribers: 10_000, deadLetters: 10, calls: 500 };
const QUICK: typeof FULL = { queued: 2_000, records: 0, subscribers: 5, deadLetters: 2, calls: 3 };
const MAX_MS = 50;
/**
 * Pause after a call, as a share of the time that it took. Linux stops processes of real-time priority for 50 ms in
 * each second in which they never pause, and a page of 10 ms at p99 seemed to take 60.
 */
const PAUSE = 0.1;

/** Measures how long the server takes for each page of the console of a large bus. */
export const consolePart: Part = {
  name: 'console',
  title: 'pages of the console of a bus with 10,000 subscribers and a million queued batches',
  run: async (stage, options) => measureInTurn('console', [await pagesPlan(stage, options)], options),
};

async function pagesPlan(stage: Stage, { quick }: Pick<Options, 'quick'>): Promise<Plan> {
  const size = quick ? QUICK : FULL;
  process.stderr.write('console: prepares a bus … ');
  const { bus, clients } = await startFullBus(stage, size);
  process.stderr.write('done\n');
  const url = `http://127.0.0.1:${bus.port}`;
  const cookie = await loginToConsole(bus.port);
  const pages = {
    overview: '',
    subscribers: '/subscribers',
    'subscribers by health': '/subscribers?sort=health&name=search',
    'a subscriber': `/subscribers/${clients[1]?.token}`,
    deliveries: '/deliveries',
    'dead letters': '/dead_letters',
    topics: '/topics',
    triggers: '/triggers',
    joins: '/joins',
    jobs: '/jobs',
    clients: '/clients',
    audit: '/audit',
  };
  return {
    title: 'console: pages',
    notes: [
      `${size.queued.toLocaleString('en')} queued batches, ${counted(size.subscribers, 'subscriber')}, ${counted(size.subscribers * size.deadLetters, 'dead letter')}`,
      `read one after the other, ${size.calls} times`,
    ],
    cases: Object.entries(pages).map(([row, path]) => ({
      row,
      measure: () => measure(`${url}/console${path}`, cookie, size.calls),
    })),
    targets: Object.keys(pages).map((row) => ({
      text: `${row}: ≤ ${MAX_MS} ms`,
      bars: [{ row, metric: 'p99Ms' as const, max: MAX_MS }],
    })),
  };
}

/** Logs root in. Returns the cookie of the session. */
export async function loginToConsole(port: number): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/console/login`, {
    method: 'POST',
    body: new URLSearchParams({ user: 'root', password: ROOT_KEY }),
    redirect: 'manual',
    headers: { 'sec-fetch-site': 'same-origin' },
  });
  const cookie = response.headers.get('set-cookie')?.split(';')[0];
  if (response.status !== 303 || !cookie) throw new Error(`the login answered ${response.status}`);
  return cookie;
}

async function measure(url: string, cookie: string, calls: number): Promise<Figures> {
  const tookMs = new Float64Array(calls);
  for (let i = 0; i < calls; i++) {
    const beganMs = performance.now();
    const response = await fetch(url, { headers: { cookie } });
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`${url} answered ${response.status}`);
    const took = performance.now() - beganMs;
    tookMs[i] = took;
    await sleep(took * PAUSE);
  }
  return { p50Ms: percentile(tookMs, 0.5), p99Ms: percentile(tookMs, 0.99) };
}
