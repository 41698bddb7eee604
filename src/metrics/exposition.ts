import { setImmediate as nextTurn } from 'node:timers/promises';
import { collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client';
import { chunksOf } from '../chunks.ts';
import { clock, sleep } from '../clock.ts';
import { RELEASE } from '../release.ts';
import { sumOf } from '../sum.ts';
import type { Counters } from './counters.ts';
import { FAMILIES, type Family } from './families.ts';
import { collectFigures, type Figure, type FigureParts } from './figures.ts';
import { cumulate, HISTOGRAMS, type HistogramName } from './histogram.ts';

/** Number of series that are made in one turn of the event loop. 1,000 take about 1 ms. */
const SERIES_PER_TURN = 1000;

/** How often the lag of the event loop is measured. prom-client's default (10 ms) takes 0.6 % of a core when idle. */
const EVENT_LOOP_SAMPLE_MS = 100;

/**
 * Time before the first reading of the event loop's lag, and between two readings, so that each has at least one
 * sample. Each reading discards the earlier samples, and a reading without samples would show a minimal lag of 292
 * years.
 */
const SAMPLED_MS = 3 * EVENT_LOOP_SAMPLE_MS;

const REFUSED = 'calls.refused' as const;

/** The metrics of this process itself, such as its release and its CPU time. */
const own = new Registry();
new Gauge({
  name: 'routemaster_build_info',
  help: 'The release of the process that answers, and its Node; always 1.',
  labelNames: ['version', 'node'],
  registers: [own],
}).set({ version: RELEASE, node: process.versions.node }, 1);
let measuring: Promise<void> | undefined;
let [ownText, ownReadAtMs] = [Promise.resolve(''), Number.NEGATIVE_INFINITY];

interface Series {
  labels: Record<string, string>;
  value: number;
  /** Only for a series of a histogram: the name of the histogram with `_bucket`, `_sum` or `_count` at its end. */
  metricName?: string;
}

/** A metric with all its series, in the form that a registry of prom-client expects. */
interface Shown {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  values: Series[];
}

/** A figure from Redis, or a count of this process that Redis refuses at present. */
type ShownFigure = Pick<Figure, 'name' | 'value' | 'tags'>;

export interface ExpositionParts extends FigureParts {
  counters: Pick<Counters, 'notAccepted'>;
}

/** Returns all figures in the text format of Prometheus. Throws StorageUnavailable if all partitions are away. */
export async function exposition(parts: ExpositionParts): Promise<string> {
  const stored: ShownFigure[] = await collectFigures(parts);
  // A Redis that refuses writes, as with a full disk, still answers reads. It refuses publishes, and also refuses to
  // count the refused calls. So the refused calls that this process has counted are added here: no other figure would
  // show them.
  const refused = parts.counters.notAccepted(REFUSED).map((each) => ({ name: REFUSED, ...each }));
  const figures = Map.groupBy<string, ShownFigure>([...stored, ...refused], ({ name }) => name);
  const texts: string[] = [];
  for (const [figure, family] of Object.entries(FAMILIES))
    texts.push(await textOf(await showFamily(family, figures.get(figure) ?? [])));
  for (const histogram of Object.keys(HISTOGRAMS) as HistogramName[])
    texts.push(await textOf(showHistogram(histogram, figures)));
  return texts.join('\n') + (await ownMetrics());
}

/** Begins to measure this process at the first call, so that a process whose metrics nobody reads does no such work. */
async function ownMetrics(): Promise<string> {
  measuring ??= beginMeasuring();
  await measuring;
  const nowMs = clock.monotonicMs();
  if (nowMs - ownReadAtMs >= SAMPLED_MS) [ownText, ownReadAtMs] = [own.metrics(), nowMs];
  return ownText;
}

function beginMeasuring(): Promise<void> {
  collectDefaultMetrics({ register: own, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS });
  return sleep(SAMPLED_MS);
}

/** Returns the text of one metric. Lets the event loop do other work first, because a long text takes some ms. */
async function textOf(shown: Shown): Promise<string> {
  await nextTurn();
  const registry = new Registry();
  // The registry uses only `name` and `get`, although its types require a whole Metric.
  registry.registerMetric({ name: shown.name, get: async () => shown } as unknown as Metric);
  return registry.metrics();
}

/**
 * Makes a series of each figure. Figures with the same labels are added up to one series, because Prometheus refuses
 * two series with the same labels. For example, each partition has a counter for all its removed topics, and the labels
 * of these counters are the same.
 */
async function showFamily(family: Family, figures: readonly ShownFigure[]): Promise<Shown> {
  const { name, help, type, perUnit } = family;
  const labels = Object.entries(family.labels);
  const merged = new Map<string, Series>();
  for await (const chunk of chunksOf(figures, SERIES_PER_TURN))
    for (const { tags, value } of chunk) {
      const shown = Object.fromEntries(labels.map(([tag, label]) => [label, tags[tag] ?? '']));
      const id = JSON.stringify(shown);
      const series = merged.get(id) ?? { labels: shown, value: 0 };
      series.value += value / perUnit;
      merged.set(id, series);
    }
  const sorted = [...merged].sort(([one], [other]) => (one < other ? -1 : 1));
  return { name, help, type, values: sorted.map(([, series]) => series) };
}

function showHistogram(
  histogram: HistogramName,
  figures: ReadonlyMap<string, readonly ShownFigure[]>,
): Shown {
  const { name, help, bounds, labels } = HISTOGRAMS[histogram];
  const values: Series[] = [];
  const groups = Map.groupBy(figures.get(`${histogram}.bucket`) ?? [], (each) => group(each, labels));
  for (const [id, counted] of groups) {
    const own = Object.fromEntries(labels.map((label) => [label, counted[0]?.tags[label] ?? '']));
    const buckets = cumulate(new Map(counted.map(({ tags, value }) => [tags.le ?? '', value])), bounds);
    const sums = figures.get(`${histogram}.sum`)?.filter((each) => group(each, labels) === id) ?? [];
    const sumMs = sumOf(sums.map(({ value }) => value));
    for (const [le, value] of buckets)
      values.push({ metricName: `${name}_bucket`, labels: { le, ...own }, value });
    values.push({ metricName: `${name}_sum`, labels: own, value: sumMs / 1000 });
    values.push({ metricName: `${name}_count`, labels: own, value: buckets.at(-1)?.[1] ?? 0 });
  }
  return { name, help, type: 'histogram', values };
}

function group({ tags }: ShownFigure, labels: readonly string[]): string {
  return JSON.stringify(labels.map((label) => tags[label] ?? ''));
}
