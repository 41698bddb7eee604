import { serveCalls } from '../../harness/measuring/helper.ts';
import { percentile } from '../../harness/measuring/statistics.ts';
import { Routemaster } from '../../packages/client/src/index.ts';
import { TOPIC } from '../workload.ts';
import type { LoadResult } from './load.ts';

interface ClientPlan {
  port: number;
  credentials: { token: string; secret: string };
  /**
   * How events are published: by `@routemaster/client`, or with a `fetch` for each event, as one would write it without
   * that package.
   */
  by: 'client' | 'fetch';
  /** Publishes under way at a time. */
  callers: number;
  events: number;
}

export type ClientLoadCalls = { run: typeof run };

/** Publishes single events. Each caller waits for its event before it goes on. */
async function run({ callers, events, ...plan }: ClientPlan): Promise<LoadResult> {
  const url = `http://127.0.0.1:${plan.port}`;
  const bus = new Routemaster({ url, ...plan.credentials });
  const publish = plan.by === 'client' ? (about: string) => bus.updated(TOPIC, about) : byFetch(url, plan);
  const latenciesMs = new Float64Array(events);
  let count = 0;
  const call = async () => {
    for (let n = count++; n < events; n = count++) {
      const sentMs = performance.now();
      await publish(`https://shop.example.com/widgets/${n}`);
      latenciesMs[n] = performance.now() - sentMs;
    }
  };
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: callers }, call));
  const seconds = (performance.now() - startedMs) / 1000;
  await bus.close();
  return { seconds, p50Ms: percentile(latenciesMs, 0.5), p99Ms: percentile(latenciesMs, 0.99) };
}

function byFetch(url: string, { credentials: { token, secret } }: Pick<ClientPlan, 'credentials'>) {
  const authorization = `Basic ${btoa(`${token}:${secret}`)}`;
  return async (about: string): Promise<void> => {
    const response = await fetch(`${url}/topics/${TOPIC}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'update', url: about }),
    });
    await response.arrayBuffer();
    if (!response.ok) throw new Error(`the bus answered ${response.status}`);
  };
}

serveCalls({ run } satisfies ClientLoadCalls);
