import { type Dispatcher, Pool } from 'undici';
import { serveCalls } from '../../harness/measuring/helper.ts';
import type { Sample } from './sink.ts';

interface SendPlan {
  port: number;
  request: Sample;
  requests: number;
  connections: number;
}

export type SenderCalls = { send: typeof send };

/** The floor of a delivery: undici POSTs the same request again and again, one at a time on each connection. */
async function send({ port, request, requests, connections }: SendPlan): Promise<void> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections });
  const { headers, body } = request;
  const options: Dispatcher.DispatchOptions = { path: '/events', method: 'POST', headers, body };
  await new Promise<void>((resolve, reject) => {
    let [sent, answered] = [0, 0];
    const next = () => {
      if (sent === requests) return;
      sent++;
      pool.dispatch(options, {
        onRequestStart: () => {},
        onResponseStart: (_, status) => {
          if (status !== 204) reject(new Error(`the sink answered ${status}`));
        },
        onResponseData: () => {},
        onResponseEnd: () => {
          answered++;
          if (answered === requests) resolve();
          else next();
        },
        onResponseError: (_, error) => reject(error),
      });
    };
    for (let i = 0; i < connections; i++) next();
  });
  await pool.destroy();
}

serveCalls({ send } satisfies SenderCalls);
