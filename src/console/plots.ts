import { type Html, html } from '../html.ts';
import { type MetricName, STEPS } from '../metrics/history.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import { bytes, count, duration, number, rate } from './format.ts';
import { live } from './layout.ts';
import { choices, pathWith } from './parts.ts';

const RANGE_NAMES = { '1h': 'One hour', '24h': 'One day', '48h': 'Two days' } as const;

const WRITTEN: Record<string, (value: number) => string> = {
  'events/s': rate,
  events: (value) => count(value, 'event'),
  s: (value) => duration(value * 1000),
  ms: duration,
  bytes,
};

/**
 * A plot's caption shows the newest of the last LATEST values that is not null. The very last value is null until a
 * worker stores it.
 */
const LATEST = 3;

interface Plot {
  title: string;
  /** The metrics that a plot draws as lines, with the names of the lines. All have the same unit. */
  lines: Partial<Record<MetricName, string>>;
}

/**
 * All plots, in the order in which pages show them. A page leaves out a plot if the history has none of its metrics.
 */
const PLOTS: readonly Plot[] = [
  { title: 'Events a second', lines: { published: 'published', delivered: 'delivered', failed: 'failed' } },
  { title: 'Queued events', lines: { queued: 'queued' } },
  { title: 'Oldest event', lines: { oldest: 'oldest' } },
  { title: 'Latency', lines: { latency: 'mean latency' } },
  { title: 'Memory', lines: { memory: 'stored' } },
];

/**
 * Returns the plots of a history, with links to other ranges of time. `path` is the path of the page. The data change
 * only every ten seconds, so an open page refreshes its plots separately, and less often than its other parts.
 */
export function plots(history: HistoryReport, path: string): Html {
  const { range } = history;
  const shown = PLOTS.map((each) => plot(history, each)).filter((each) => each !== undefined);
  const ranges = choices(RANGE_NAMES, range, (each) => pathWith(path, { range: each }));
  const content = html`${ranges}<div class="plots">${shown}</div>`;
  return live('plots', pathWith(path, { range, part: 'plots' }), content, STEPS.fine.ms);
}

/**
 * True if the answer needs the part `what` of a page: its plots, or `now`, which is everything else. A refresh asks for
 * one part by the query parameter `part`. Any other request gets both parts.
 */
export function isAsked(what: 'plots' | 'now', { part }: Record<string, string | undefined>): boolean {
  return part === undefined || part === what;
}

/** Returns a plot, or undefined if the history has none of its metrics. In the browser, plots.js draws the lines. */
function plot({ start, step, metrics }: HistoryReport, { title, lines }: Plot): Html | undefined {
  const drawn = Object.entries(lines).flatMap(([metric, name]) => {
    const found = metrics[metric as MetricName];
    return found ? [{ name, ...found }] : [];
  });
  const unit = drawn[0]?.unit;
  if (unit === undefined) return undefined;
  const written = WRITTEN[unit] ?? number;
  const captions = drawn.map(({ name, values }) => {
    const known = values.filter((value) => value !== null);
    const last = values.slice(-LATEST).findLast((value) => value !== null) ?? null;
    const text =
      known.length === 0
        ? 'nothing yet'
        : `${last === null ? 'none lately' : written(last)}, at most ${written(Math.max(...known))}`;
    return html`<span class="caption"><b>${name}</b> ${text}</span> `;
  });
  const data = JSON.stringify({
    start,
    step,
    unit,
    lines: drawn.map(({ name, values }) => ({ name, values })),
  });
  return html`<figure class="card" data-plot="${data}"><figcaption>${title}<br>${captions}</figcaption>
<div class="plot" role="img" aria-label="${title} over time"></div></figure>`;
}
