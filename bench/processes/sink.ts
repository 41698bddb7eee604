import { createServer, type Socket } from 'node:net';
import { serveCalls } from '../../harness/measuring/helper.ts';
import { percentile } from '../../harness/measuring/statistics.ts';
import { listenLocally } from '../../harness/processes/ports.ts';
import { agesMs, nowMicros } from '../stamp.ts';

/** After this long without a delivery, no more are expected. */
const SILENCE_MS = 30_000;
const HEAD_END = Buffer.from('\r\n\r\n');
/** Each delivered event has this text exactly once, so counting it counts the events. */
const EVENT = Buffer.from('"topic":"');
const TAKEN = 'HTTP/1.1 204 No Content\r\n\r\n';

export interface Reached {
  events: number;
  atUs: number;
}

export interface Sample {
  headers: Record<string, string>;
  body: string;
}

export type SinkCalls = {
  listen: typeof listen;
  reset: typeof reset;
  reach: typeof reach;
  hold: typeof hold;
  release: typeof release;
  ages: typeof ages;
  sample: typeof sample;
};

let events = 0;
let last = { head: '', body: '' };
/** Ages in ms of all stamped events, and of the first one of each delivery; undefined if ages are not recorded. */
let seen: { all: number[]; oldest: number[] } | undefined;
/** Connections whose answers are held back; undefined if answers are not held back. */
let held: Socket[] | undefined;
let waiting: { events: number; resolve: (reached: Reached) => void } | undefined;

/**
 * Starts a subscriber that takes every batch. Resolves with its callback. It is a raw TCP server, because one of Node's
 * HTTP costs three times as much.
 */
async function listen(): Promise<string> {
  return `http://127.0.0.1:${await listenLocally(createServer({ noDelay: true }, receive))}/events`;
}

/** Starts counting anew. `withAges`: also records the ages of events, which are stamped. */
function reset(withAges = false): void {
  events = 0;
  last = { head: '', body: '' };
  seen = withAges ? { all: [], oldest: [] } : undefined;
}

/** Resolves when this many events have arrived; rejects when they stop arriving. */
async function reach(wanted: number): Promise<Reached> {
  let before = -1;
  const { promise, resolve, reject } = Promise.withResolvers<Reached>();
  const watch = setInterval(() => {
    if (before === events) reject(new Error(`only ${events} of ${wanted} events were delivered`));
    before = events;
  }, SILENCE_MS);
  waiting = { events: wanted, resolve };
  tell();
  return promise.finally(() => clearInterval(watch));
}

/** Holds back all answers from now on, so that the worker must wait. */
function hold(): void {
  held = [];
}

/** Answers the deliveries that were held back, and all later ones. Returns how many events had arrived. */
function release(): Reached {
  const reached = { events, atUs: nowMicros() };
  for (const socket of held ?? []) socket.write(TAKEN, 'latin1');
  held = undefined;
  return reached;
}

interface Ages {
  p50Ms: number;
  p99Ms: number;
}

/** Returns the ages of all events since `reset`, and of the oldest event of each delivery. */
function ages(): { all: Ages; oldest: Ages } {
  const of = (values: number[] = []) => {
    const sorted = Float64Array.from(values);
    return { p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99) };
  };
  return { all: of(seen?.all), oldest: of(seen?.oldest) };
}

/** Returns the last delivery as it came, without the headers that belong to the connection. */
function sample(): Sample {
  const lines = last.head.split('\r\n').slice(1);
  const headers = Object.fromEntries(lines.map((line) => line.split(/: (.*)/s) as [string, string]));
  for (const name of ['host', 'connection', 'content-length']) delete headers[name];
  return { headers, body: last.body };
}

function receive(socket: Socket): void {
  let pending: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    const headEnd = pending.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const head = pending.toString('latin1', 0, headEnd);
    const length = Number(/\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    const body = pending.subarray(headEnd + 4);
    // One request at a time: clients of HTTP/1.1 wait for the answer.
    if (body.length < length) return;
    pending = Buffer.alloc(0);
    take(head, body);
    if (held) held.push(socket);
    else socket.write(TAKEN, 'latin1');
    tell();
  });
  socket.on('error', () => {}); // the worker has gone
}

function take(head: string, body: Buffer): void {
  for (let at = body.indexOf(EVENT); at >= 0; at = body.indexOf(EVENT, at + EVENT.length)) events++;
  if (seen) {
    const its = agesMs(body.toString('latin1'));
    seen.all.push(...its);
    seen.oldest.push(its[0] ?? Number.NaN);
  } else if (last.body.length !== body.length) last = { head, body: body.toString() };
}

function tell(): void {
  if (!waiting || events < waiting.events) return;
  waiting.resolve({ events, atUs: nowMicros() });
  waiting = undefined;
}

serveCalls({ listen, reset, reach, hold, release, ages, sample } satisfies SinkCalls);
