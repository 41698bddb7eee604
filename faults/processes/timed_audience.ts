import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { BusClient, type Credentials } from '../../harness/http/bus_client.ts';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { percentile } from '../../harness/measuring/statistics.ts';
import { until } from '../../harness/until.ts';

const ARRIVES_WITHIN_MS = 60_000;
/** The fractional parts of its multiples are spread evenly between 0 and 1. */
const GOLDEN_RATIO = (1 + Math.sqrt(5)) / 2;

export interface Pace {
  /** The bus. */
  url: string;
  credentials: Credentials;
  topic: string;
  /** Another topic that gets events meanwhile, at other instants; nobody here receives them. */
  beside: { topic: string; perSecond: number };
  /** Part of the events' URLs. */
  name: string;
  events: number;
  perSecond: number;
}

export interface Timing {
  /** The URLs of the events. */
  accepted: string[];
  /** How many receipts are missing. */
  missing: number;
  /** Times from before an event was sent until a receiver had it. */
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
}

export type TimedCalls = { listen: typeof listen; measure: typeof measure };

const URLS = /"url":"([^"]*)"/g;
const sentAtMs = new Map<string, number>();
/** The receipts of each receiver. */
const receipts: Map<string, number>[] = [];

/** Starts receivers that take everything at once. Resolves with their callbacks. */
async function listen(count: number): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, receive));
}

async function receive(): Promise<string> {
  const ages = new Map<string, number>();
  receipts.push(ages);
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const nowMs = performance.now();
    response.writeHead(204).end();
    for (const [, url = ''] of body.matchAll(URLS)) {
      if (!ages.has(url)) ages.set(url, nowMs - (sentAtMs.get(url) ?? Number.NaN));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`;
}

/** Publishes events at a fixed pace, whether or not answers come, and waits until every receiver has each event. */
async function measure({ url, credentials, topic, beside, name, events, perSecond }: Pace): Promise<Timing> {
  const client = new BusClient(url, credentials);
  const publish = (to: string, event: string) =>
    client.call('POST', `/topics/${to}`, { type: 'create', url: event });
  const publishBeside = async (_: unknown, n: number) => {
    await sleep(((n + ((n * GOLDEN_RATIO) % 1)) * 1000) / beside.perSecond);
    await publish(beside.topic, `https://shop.example.com/${name}/beside/${n}`);
  };
  const others = Array.from({ length: Math.floor((events * beside.perSecond) / perSecond) }, publishBeside);
  const accepted = await Promise.all(
    Array.from({ length: events }, async (_, n) => {
      const event = `https://shop.example.com/${name}/${n}`;
      await sleep((n * 1000) / perSecond);
      sentAtMs.set(event, performance.now());
      await publish(topic, event);
      return event;
    }),
  );
  await Promise.all(others);
  const missing = () => receipts.flatMap((ages) => accepted.filter((event) => !ages.has(event)));
  await until(() => missing().length === 0, { timeoutMs: ARRIVES_WITHIN_MS, everyMs: 50 }).catch(() => {});
  const ages = Float64Array.from(
    receipts.flatMap((own) => accepted.flatMap((event) => own.get(event) ?? [])),
  );
  return {
    accepted,
    missing: missing().length,
    p50Ms: percentile(ages, 0.5),
    p99Ms: percentile(ages, 0.99),
    maxMs: percentile(ages, 1),
  };
}

serveCalls({ listen, measure } satisfies TimedCalls);
