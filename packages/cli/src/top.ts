import { setTimeout as sleep } from 'node:timers/promises';
import { type Routemaster, RoutemasterError } from '@routemaster/client';
import { BUSIEST_TOPICS, type BusReport, type Reading, reportOf, type TopicLine } from './bus_report.ts';
import type { Call } from './command.ts';
import { readFigures } from './figures.ts';
import { textOf } from './tables.ts';
import { topLines } from './top_lines.ts';

const REFRESH_MS = 2000;
const METRICS_TIMEOUT_MS = 5000;
/**
 * Time between the two readings of the metrics from which a rate is computed. By default, each process of the bus
 * updates its counters every five seconds. So between the readings, each counter is updated about twice. With readings
 * four seconds apart, a counter would be updated once or never between them, and the rate would jump between too high
 * and 0.
 */
const RATES_OVER_MS = 10_000;
/**
 * The time between the two readings may be up to JITTER_MS shorter than RATES_OVER_MS, because the bus does not answer
 * all requests equally fast.
 */
const JITTER_MS = 500;

/** Switches the terminal to a second screen without a cursor. LEAVE brings the first screen back unchanged. */
const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const [HOME, CLEAR_LINE, CLEAR_BELOW] = ['\x1b[H', '\x1b[K', '\x1b[J'];

/**
 * Shows a report of the bus every two seconds until Ctrl-C: on a terminal as a full screen, with --json as a line of
 * JSON. With --once, or with neither a terminal nor --json, shows only one report.
 */
export async function top(call: Call): Promise<void> {
  const { options, streams } = call;
  const isScreen = streams.stdout.isTTY === true && !options.json && !options.once;
  const isOnce = options.once === true || (!isScreen && !options.json);
  const interrupted = call.interruption();
  const bus = call.connect({ timeoutMs: METRICS_TIMEOUT_MS });
  if (!isScreen) {
    for await (const reading of reportsOf(bus, interrupted)) {
      const report = isOnce ? await withRatesOf(bus, reading) : reading;
      call.print(report, linesOf(report, call));
      if (isOnce) return;
    }
    return;
  }
  streams.stdout.write(ENTER);
  const complain = (error: Error) => {
    // The screen may be too narrow for the whole line. The message of a TimeLimitError begins with the time limit, so
    // the message of its cause is shown instead, which says what is wrong.
    const { message } = error.cause instanceof RoutemasterError ? error.cause : error;
    const text = `the bus does not answer, trying again: ${textOf(message)}`;
    streams.stdout.write(`${HOME}${text.slice(0, widthOf(streams.stdout))}${CLEAR_LINE}`);
  };
  try {
    for await (const report of reportsOf(bus, interrupted, complain)) {
      const { rows } = streams.stdout;
      const lines = linesOf(report, call).slice(0, rows ? rows - 1 : undefined);
      const shown = lines.map((line) => `${line}${CLEAR_LINE}\n`);
      streams.stdout.write(`${HOME}${shown.join('')}${CLEAR_BELOW}`);
    }
  } finally {
    streams.stdout.write(LEAVE);
  }
}

/**
 * The present rate of a metric is the newest value of its history that is not null. Only the last NEWEST_VALUES
 * values are searched. The very last one may be null, because the bus may not have sampled it yet.
 */
const NEWEST_VALUES = 3;

/**
 * Adds the present rates of the bus, and its busiest topics, to a report. Two more calls get them, because one reading
 * of the metrics gives no rates. If these calls fail, as with an earlier release of the bus, the rates are null and no
 * topics are listed. The rate of failed deliveries is always null: the bus keeps a history of failed events, but not of
 * failed deliveries.
 */
async function withRatesOf(bus: Routemaster, report: BusReport): Promise<BusReport> {
  const unlessUnknown = (error: Error) => {
    if (error instanceof RoutemasterError) return undefined;
    throw error;
  };
  const [history, topics] = await Promise.all([
    bus.history().catch(unlessUnknown),
    busiestTopics(bus).catch(unlessUnknown),
  ]);
  const newest = (metric: string) =>
    history?.metrics[metric]?.values.slice(-NEWEST_VALUES).findLast((value) => value !== null) ?? null;
  const rates = { published_rate: newest('published'), delivered_rate: newest('delivered') };
  return { ...report, ...rates, topics: topics ?? [] };
}

async function busiestTopics(bus: Routemaster): Promise<TopicLine[]> {
  const busiest: TopicLine[] = [];
  for await (const { name, events, lately } of bus.topics({ sort: 'rate', limit: BUSIEST_TOPICS })) {
    if (!lately?.rate || busiest.length === BUSIEST_TOPICS) break;
    busiest.push({ topic: name, published: events, published_rate: lately.rate });
  }
  return busiest;
}

/**
 * Yields a report of the bus every two seconds, until `interrupted` is aborted. Throws if the first request fails. If a
 * later request fails, calls `complain` with the error and goes on; without `complain`, throws the error.
 */
async function* reportsOf(
  bus: Routemaster,
  interrupted: AbortSignal,
  complain?: (error: Error) => void,
): AsyncGenerator<BusReport> {
  const readings: Reading[] = [];
  let dueAtMs = performance.now();
  while (!interrupted.aborted) {
    try {
      const text = await bus.metrics({ signal: interrupted });
      const now = { atMs: performance.now(), figures: readFigures(text) };
      const isOld = (reading?: Reading) =>
        reading !== undefined && now.atMs - reading.atMs >= RATES_OVER_MS - JITTER_MS;
      while (isOld(readings[1])) readings.shift();
      yield reportOf(now, isOld(readings[0]) ? readings[0] : undefined);
      readings.push(now);
    } catch (error) {
      if (interrupted.aborted) return;
      if (!complain || readings.length === 0 || !(error instanceof RoutemasterError)) throw error;
      complain(error);
      // The next request comes two seconds after this failure, so that a bus in trouble gets a rest.
      dueAtMs = performance.now();
    }
    // A request is due two seconds after the last one was due, not two seconds after its answer. A rate is computed
    // from the first and the last reading of ten seconds (RATES_OVER_MS). If each answer delayed the next request,
    // these readings could be eleven seconds apart.
    dueAtMs = Math.max(dueAtMs + REFRESH_MS, performance.now());
    const pauseMs = Math.max(0, dueAtMs - performance.now());
    await sleep(pauseMs, undefined, { signal: interrupted }).catch(() => {});
  }
}

function linesOf(report: BusReport, { streams, target }: Call): string[] {
  const { stdout } = streams;
  return topLines(report, target().url, stdout.isTTY ? widthOf(stdout) : Number.POSITIVE_INFINITY);
}

/**
 * Returns the width of a terminal. If the terminal does not know its size, `columns` is 0, and the width is unlimited.
 */
function widthOf({ columns }: NodeJS.WriteStream): number {
  return columns || Number.POSITIVE_INFINITY;
}
