import { type Html, html } from '../html.ts';
import { type MetricName, STEPS } from '../metrics/history.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import { bytes, count, duration, number } from './format.ts';
import { live } from './layout.ts';
import { choices, pathWith } from './parts.ts';

/** The ranges of time that a reader can choose, with their names. */
const RANGE_NAMES = { '1h': 'One hour', '24h': 'One day', '48h': 'Two days' } as const;

/** Functions that write values for people, by the unit of the values. */
const WRITTEN: Record<string, (value: number) => string> = {
  'events/s': (value) => `${number(value)}/s`,
  events: (value) => count(value, 'event'),
  s: (value) => duration(value * 1000),
  ms: duration,
  bytes,
};

/**
 * The text above a plot gives the present value: the newest known one among this many last values. The very last value
 * is null until it is sampled. Older values are not used: long after the last delivery, or the last worker, one would
 * look like the present value.
 */
const LATEST = 3;

interface Plot {
  title: string;
  /** The metrics that a plot draws as lines, with the name of each line. All of these metrics have the same unit. */
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
 * Returns the plots of a history, with links to other ranges of time. `path` is the path of the page. The plots are the
 * largest part of the page and change only every ten seconds, so they are refreshed separately from the rest.
 */
export function plots(history: HistoryReport, path: string): Html {
  const { range } = history;
  const shown = PLOTS.map((each) => plot(history, each)).filter((each) => each !== undefined);
  const ranges = choices(RANGE_NAMES, range, (each) => pathWith(path, { range: each }));
  const content = html`${ranges}<div class="plots">${shown}</div>`;
  return live('plots', pathWith(path, { range, part: 'plots' }), content, STEPS.fine.ms);
}

/**
 * Returns true if an answer must contain the part `what` of a page: the plots, or the other content (`now`). The query
 * parameter `part` names the only part to send. Without it, the answer has the whole page.
 */
export function isAsked(what: 'plots' | 'now', { part }: Record<string, string | undefined>): boolean {
  return part === undefined || part === what;
}

/**
 * Returns a plot. Returns undefined if the history has none of its metrics. A script in the browser draws the lines
 * (plots.js).
 */
function plot({ start, step, metrics }: HistoryReport, { title, lines }: Plot): Html | undefined {
  const drawn = Object.entries(lines).flatMap(([metric, name]) => {
    const found = metrics[metric as MetricName];
    return found ? [{ name, ...found }] : [];
  });
  const unit = drawn[0]?.unit;
  if (unit === undefined) return undefined;
  const written = WRITTEN[unit] ?? number;
  const told = drawn.map(({ name, values }) => {
    const known = values.filter((value) => value !== null);
    const last = values.slice(-LATEST).findLast((value) => value !== null) ?? null;
    const text =
      known.length === 0
        ? 'nothing yet'
        : `${last === null ? 'none lately' : written(last)}, at most ${written(Math.max(...known))}`;
    return html`<span class="told"><b>${name}</b> ${text}</span> `;
  });
  const data = JSON.stringify({
    ...{ start, step, unit },
    lines: drawn.map(({ name, values }) => ({ name, values })),
  });
  return html`<figure class="card" data-plot="${data}"><figcaption>${title}<br>${told}</figcaption>
<div class="plot" role="img" aria-label="${title} over time"></div></figure>`;
}
