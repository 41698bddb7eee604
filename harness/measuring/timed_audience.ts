import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { BusClient, type Credentials } from '../http/bus_client.ts';
import { listenLocally } from '../processes/ports.ts';
import { until } from '../until.ts';
import { serveCalls } from './helper.ts';
import { percentile } from './statistics.ts';

const ARRIVES_WITHIN_MS = 60_000;
/** The fractional parts of its multiples are spread evenly between 0 and 1. */
const GOLDEN_RATIO = (1 + Math.sqrt(5)) / 2;

interface Publisher {
  credentials: Credentials;
  topic: string;
}

interface Pace {
  /** The bus. */
  url: string;
  /** The publishers, each with its topic. They take turns. */
  publishers: Publisher[];
  /** Another topic that gets events meanwhile, at times of their own. It has no receiver in this process. */
  beside?: { topic: string; perSecond: number };
  /** Part of the events' URLs. */
  name: string;
  events: number;
  /** Events a second, over all publishers. */
  perSecond: number;
  /** Time after the last answer within which an event must arrive; otherwise it is missing. */
  arrivesWithinMs?: number;
}

interface Latency {
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
}

export interface Timing {
  /** The URLs of the accepted events. */
  accepted: string[];
  /** Reasons why the other events were not accepted. */
  refused: string[];
  /** Number of missing receipts of accepted events. */
  missing: number;
  /** Times until a publish was accepted. */
  publish: Latency;
  /** Times from before an event was sent until a receiver had it. */
  delivery: Latency;
}

export type TimedCalls = { listen: typeof listen; measure: typeof measure };

const URLS = /"url":"([^"]*)"/g;
const sentAtMs = new Map<string, number>();
/** The receivers. Each hears one topic, and notes the ages of its events at their arrival. */
const receivers: { topic: string; ages: Map<string, number> }[] = [];

/** Starts a receiver for each of these topics, which accepts everything. Resolves with their callbacks. */
async function listen(topics: string[]): Promise<string[]> {
  return Promise.all(topics.map(receive));
}

async function receive(topic: string): Promise<string> {
  const ages = new Map<string, number>();
  receivers.push({ topic, ages });
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const nowMs = performance.now();
    response.writeHead(204).end();
    for (const [, url = ''] of body.matchAll(URLS)) {
      if (!ages.has(url)) ages.set(url, nowMs - (sentAtMs.get(url) ?? Number.NaN));
    }
  });
  return `http://127.0.0.1:${await listenLocally(server)}/events`;
}

interface Sent {
  topic: string;
  event: string;
  tookMs: number;
  refusal: string | undefined;
}

/**
 * Publishes events at a fixed pace, whether or not answers arrive. Then waits until each receiver has every accepted
 * event of its topic, or until the time for that is over.
 */
async function measure(pace: Pace): Promise<Timing> {
  const others = publishBeside(pace);
  const sent = await Promise.all(Array.from({ length: pace.events }, (_, n) => publishOne(pace, n)));
  await others;
  const accepted = sent.filter(({ refusal }) => refusal === undefined);
  const missing = () =>
    receivers.flatMap(({ topic, ages }) =>
      accepted.filter((one) => one.topic === topic && !ages.has(one.event)),
    );
  const timeoutMs = pace.arrivesWithinMs ?? ARRIVES_WITHIN_MS;
  await until(() => missing().length === 0, { timeoutMs, everyMs: 50 }).catch(() => {});
  return {
    accepted: accepted.map(({ event }) => event),
    refused: sent.flatMap(({ refusal }) => refusal ?? []),
    missing: missing().length,
    publish: latency(accepted.map(({ tookMs }) => tookMs)),
    delivery: latency(
      receivers.flatMap(({ ages }) => accepted.flatMap(({ event }) => ages.get(event) ?? [])),
    ),
  };
}

async function publishOne({ url, publishers, name, perSecond }: Pace, n: number): Promise<Sent> {
  const { credentials, topic } = publishers[n % publishers.length] as Publisher;
  const event = `https://shop.example.com/${name}/${n}`;
  await sleep((n * 1000) / perSecond);
  const beganMs = performance.now();
  sentAtMs.set(event, beganMs);
  const refusal = await publish(url, credentials, topic, event);
  return { topic, event, tookMs: performance.now() - beganMs, refusal };
}

async function publishBeside({ url, publishers, beside, name, events, perSecond }: Pace): Promise<void> {
  if (!beside) return;
  const { credentials } = publishers[0] as Publisher;
  const count = Math.floor((events * beside.perSecond) / perSecond);
  const publishNth = async (_: unknown, n: number) => {
    await sleep(((n + ((n * GOLDEN_RATIO) % 1)) * 1000) / beside.perSecond);
    await publish(url, credentials, beside.topic, `https://shop.example.com/${name}/beside/${n}`);
  };
  await Promise.all(Array.from({ length: count }, publishNth));
}

/** Publishes an event. Resolves with the reason if it was not accepted; otherwise with undefined. */
async function publish(
  url: string,
  credentials: Credentials,
  topic: string,
  event: string,
): Promise<string | undefined> {
  try {
    await new BusClient(url, credentials).call('POST', `/topics/${topic}`, { type: 'create', url: event });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function latency(values: number[]): Latency {
  const ms = Float64Array.from(values);
  return { p50Ms: percentile(ms, 0.5), p99Ms: percentile(ms, 0.99), maxMs: percentile(ms, 1) };
}

serveCalls({ listen, measure } satisfies TimedCalls);
