import { type Metric, Registry } from 'prom-client';
import { FAMILIES, type Family } from './families.ts';
import { collectFigures, type Figure, type FigureParts } from './figures.ts';
import { cumulate, DELIVERY_SECONDS, LATENCY_SECONDS, LATENESS_SECONDS } from './histogram.ts';

/** A series of Prometheus: a value under a name and labels. */
interface Series {
  labels: Record<string, string>;
  value: number;
  /**
   * The name of a series in a histogram: the name of its family with `_bucket`, `_sum` or `_count`. Other series have
   * the family's name, and lack this field.
   */
  metricName?: string;
}

/** A family (all series of one metric of Prometheus) in the form that a registry of prom-client expects. */
interface Shown {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  values: Series[];
}

interface Histogram {
  name: string;
  help: string;
  /** The text with which the names of the histogram's two figures begin: `<figure>.bucket` and `<figure>.sum`. */
  figure: string;
  bounds: readonly number[];
  labels: readonly string[];
}

const HISTOGRAMS: readonly Histogram[] = [
  {
    name: 'routemaster_delivery_duration_seconds',
    help: 'Time taken by a delivery.',
    figure: 'delivery.duration',
    bounds: DELIVERY_SECONDS,
    labels: ['status'],
  },
  {
    name: 'routemaster_latency_seconds',
    help: 'Time from the creation of a batch until its subscriber took it.',
    figure: 'latency.end_to_end',
    bounds: LATENCY_SECONDS,
    labels: [],
  },
  {
    name: 'routemaster_delayed_lateness_seconds',
    help: 'Time from when a delayed event was due until it was published.',
    figure: 'delayed.lateness',
    bounds: LATENESS_SECONDS,
    labels: [],
  },
  {
    name: 'routemaster_triggers_lateness_seconds',
    help: 'Time from when a trigger was due until it fired.',
    figure: 'triggers.lateness',
    bounds: LATENESS_SECONDS,
    labels: [],
  },
];

/**
 * Returns the figures of the bus and the figures of this process, in the text format of Prometheus. Throws
 * StorageUnavailable if no partition can be reached.
 */
export async function exposition(parts: FigureParts, own: Registry): Promise<string> {
  const figures = await collectFigures(parts);
  const bus = new Registry();
  const shown = [
    ...Object.entries(FAMILIES).map(([figure, family]) => showFamily(family, figuresNamed(figures, figure))),
    ...HISTOGRAMS.map((histogram) => showHistogram(histogram, figures)),
  ];
  // The types of a registry require a whole Metric, but the registry uses only `name` and `get`. So these two are
  // enough.
  for (const each of shown)
    bus.registerMetric({ name: each.name, get: async () => each } as unknown as Metric);
  return (await bus.metrics()) + (await own.metrics());
}

function figuresNamed(figures: readonly Figure[], name: string): Figure[] {
  return figures.filter((figure) => figure.name === name);
}

function showFamily({ name, help, type, labels, perUnit }: Family, figures: readonly Figure[]): Shown {
  const values = figures.map(({ tags, value }) => {
    const shown = Object.entries(labels).map(([tag, label]) => [label, tags[tag] ?? '']);
    return { labels: Object.fromEntries(shown), value: value / perUnit };
  });
  return { name, help, type, values: merge(values) };
}

/**
 * Adds up series with the same labels, because Prometheus would refuse them. There are such series if two clients have
 * the same public name.
 */
function merge(all: readonly Series[]): Series[] {
  const merged = new Map<string, Series>();
  for (const series of all) {
    const id = JSON.stringify(Object.values(series.labels));
    const known = merged.get(id);
    if (known) known.value += series.value;
    else merged.set(id, { ...series });
  }
  return [...merged].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, series]) => series);
}

function showHistogram({ name, help, figure, bounds, labels }: Histogram, figures: readonly Figure[]): Shown {
  const values: Series[] = [];
  const groups = Map.groupBy(figuresNamed(figures, `${figure}.bucket`), (each) => group(each, labels));
  for (const [id, counted] of groups) {
    const own = Object.fromEntries(labels.map((label) => [label, counted[0]?.tags[label] ?? '']));
    const buckets = cumulate(new Map(counted.map(({ tags, value }) => [tags.le ?? '', value])), bounds);
    const sums = figuresNamed(figures, `${figure}.sum`).filter((each) => group(each, labels) === id);
    const sumMs = sums.reduce((sum, { value }) => sum + value, 0);
    for (const [le, value] of buckets)
      values.push({ metricName: `${name}_bucket`, labels: { le, ...own }, value });
    values.push({ metricName: `${name}_sum`, labels: own, value: sumMs / 1000 });
    values.push({ metricName: `${name}_count`, labels: own, value: buckets.at(-1)?.[1] ?? 0 });
  }
  return { name, help, type: 'histogram', values };
}

function group({ tags }: Figure, labels: readonly string[]): string {
  return JSON.stringify(labels.map((label) => tags[label] ?? ''));
}
