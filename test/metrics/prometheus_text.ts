/** A family of Prometheus's text format. */
export interface ParsedFamily {
  type: string;
  help: string;
  /** The series as written, such as `a_bucket{le="1"}`, with their values. */
  series: Map<string, number>;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\\\\\|\\\\"|\\\\n)*"';
const SERIES = new RegExp(`^((${NAME})(?:\\{(?:${LABEL}(?:,${LABEL})*)?\\})?) (\\S+)$`);
const NUMBER = /^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]inf|nan)$/i;

/**
 * Reads Prometheus's text format (0.0.4) strictly, and throws at any violation. Each family has HELP and TYPE once,
 * directly before its series; no series comes twice; the buckets of a histogram are cumulative and end with +Inf, which
 * equals its count.
 */
export function parsePrometheus(text: string): Map<string, ParsedFamily> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const families = new Map<string, ParsedFamily>();
  let open: [string, ParsedFamily] | undefined;
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const help = new RegExp(`^# HELP (${NAME}) (.+)$`).exec(line);
    const type = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram|summary|untyped)$`).exec(line);
    if (help?.[1]) {
      if (families.has(help[1])) throw new Error(`a second ${line}`);
      open = [help[1], { help: help[2] ?? '', type: '', series: new Map() }];
      families.set(...open);
    } else if (type) {
      if (!open || open[0] !== type[1] || open[1].type !== '') throw new Error(`out of place: ${line}`);
      open[1].type = type[2] ?? '';
    } else if (open) addSeries(open, line);
    else throw new Error(`before any family: ${line}`);
  }
  for (const [name, family] of families) if (family.type === 'histogram') checkHistogram(name, family);
  return families;
}

function addSeries([family, { type, series }]: [string, ParsedFamily], line: string): void {
  const [, id = '', name = '', value = ''] = SERIES.exec(line) ?? [];
  if (!NUMBER.test(value)) throw new Error(`no series: ${line}`);
  const suffix = name.slice(family.length);
  const allowed = type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
  const summary = type === 'summary' && ['', '_sum', '_count'].includes(suffix);
  if (!name.startsWith(family) || !(allowed.includes(suffix) || summary))
    throw new Error(`not of ${family}: ${line}`);
  if (series.has(id)) throw new Error(`twice: ${id}`);
  series.set(id, Number(value.replace(/inf/i, 'Infinity')));
}

function checkHistogram(name: string, { series }: ParsedFamily): void {
  const groups = new Map<string, [bound: number, count: number][]>();
  for (const [id, value] of series) {
    const le = /[{,]le="([^"]*)"/.exec(id)?.[1];
    if (le === undefined) continue;
    const others = id
      .slice(`${name}_bucket`.length)
      .replace(/le="[^"]*",?/, '')
      .replace(/^\{\}$/, '');
    const bound = Number(le.replace('+Inf', 'Infinity'));
    groups.set(others, [...(groups.get(others) ?? []), [bound, value]]);
  }
  for (const [labels, buckets] of groups) {
    const rises = buckets.every(([bound, count], i) => {
      const [lower, less] = buckets[i - 1] ?? [Number.NEGATIVE_INFINITY, 0];
      return bound > lower && count >= less;
    });
    const last = buckets.at(-1);
    if (!rises || last?.[0] !== Number.POSITIVE_INFINITY)
      throw new Error(`the buckets of ${name}${labels} do not rise to +Inf`);
    if (series.get(`${name}_count${labels}`) !== last[1])
      throw new Error(`the count of ${name}${labels} is not its last bucket`);
    if (!series.has(`${name}_sum${labels}`)) throw new Error(`${name}${labels} has no sum`);
  }
}
