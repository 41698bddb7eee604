/** The figures of `GET /metrics`, by name. Each has a list of values, one for each set of labels. */
export type Figures = Map<string, { labels: Record<string, string>; value: number }[]>;

const LINE = /^routemaster_(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Reads Prometheus's text format. Returns the metrics under their names without the prefix `routemaster_`. */
export function readFigures(text: string): Figures {
  const figures: Figures = new Map();
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] = LINE.exec(line) ?? [];
    if (name === undefined) continue;
    const series = figures.get(name) ?? [];
    if (series.length === 0) figures.set(name, series);
    series.push({ labels: readLabels(labels), value: Number(value) });
  }
  return figures;
}

function readLabels(text: string): Record<string, string> {
  const labels = [...text.matchAll(LABEL)].map(([, name = '', value = '']) => {
    return [name, value.replace(/\\(.)/g, (_, each: string) => (each === 'n' ? '\n' : each))] as const;
  });
  return Object.fromEntries(labels);
}

/** Returns the sum of a metric's values that have these labels, 0 if there are none. */
export function sumOf(figures: Figures, name: string, labels: Record<string, string> = {}): number {
  const wanted = Object.entries(labels);
  return (figures.get(name) ?? [])
    .filter((series) => wanted.every(([label, value]) => series.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
