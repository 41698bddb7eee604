import { Pool } from 'undici';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { percentile } from '../../harness/measuring/statistics.ts';
import { signatureHeaders } from '../../src/delivering/sending/signatures.ts';
import { UUID } from '../workload.ts';
import type { LoadResult } from './load.ts';

interface Plan {
  port: number;
  signingSecret: string;
  connections: number;
  batches: number;
  /** Events of a batch. */
  max: number;
}

/** Delivers batches as a worker does, signed, each with an id of its own. */
async function deliver({ port, signingSecret, connections, batches, max }: Plan): Promise<LoadResult> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, pipelining: 1 });
  const body = Buffer.from(`[${Array.from({ length: max }, (_, n) => eventText(n)).join(',')}]`);
  const authorization = `Basic ${btoa(`${UUID}:x`)}`;
  const latenciesMs = new Float64Array(batches);
  let count = 0;
  const call = async () => {
    for (let n = count++; n < batches; n = count++) {
      const id = `bench${process.pid}${n}`;
      const signed = signatureHeaders(signingSecret, id, Date.now(), body);
      const headers = { authorization, 'content-type': 'application/json', 'webhook-id': id, ...signed };
      const sentMs = performance.now();
      const answer = await pool.request({ path: '/events', method: 'POST', headers, body });
      await answer.body.dump();
      if (answer.statusCode !== 204) throw new Error(`the receiver answered ${answer.statusCode}`);
      latenciesMs[n] = performance.now() - sentMs;
    }
  };
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: connections }, call));
  const seconds = (performance.now() - startedMs) / 1000;
  await pool.close();
  return { seconds, p50Ms: percentile(latenciesMs, 0.5), p99Ms: percentile(latenciesMs, 0.99) };
}

function eventText(n: number): string {
  const event = {
    id: `event${n}`,
    topic: 'widgets',
    type: 'update',
    url: `https://shop.example.com/widgets/${n}`,
  };
  return JSON.stringify({ ...event, t: 1_795_171_531_417 });
}

export type ReceiverLoadCalls = { deliver: typeof deliver };
serveCalls({ deliver } satisfies ReceiverLoadCalls);
