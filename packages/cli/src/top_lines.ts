import { type BusReport, partitionsAwayText, stateOf, workersText } from './bus_report.ts';
import { duration, number, rate, table } from './tables.ts';

type Subscriber = BusReport['subscribers'][number];

/** The columns of the table. On a narrow terminal, the columns with the highest rank are left out first. */
const COLUMNS: readonly { head: string; rank: number; cell: (line: Subscriber) => unknown }[] = [
  { head: 'SUBSCRIBER', rank: 1, cell: ({ subscriber }) => subscriber },
  { head: 'STATE', rank: 2, cell: (line) => shownState(line) },
  { head: 'QUEUED', rank: 3, cell: ({ queued }) => number(queued) },
  { head: 'OLDEST', rank: 4, cell: ({ oldest_seconds }) => duration(oldest_seconds) },
  { head: 'EVENTS/S', rank: 6, cell: ({ delivered_rate }) => rate(delivered_rate) },
  { head: 'FAILED/S', rank: 5, cell: ({ failed_rate }) => rate(failed_rate) },
  { head: 'HEALTH', rank: 8, cell: ({ health }) => health },
  { head: 'DEAD', rank: 9, cell: ({ dead_letters }) => number(dead_letters) },
  { head: 'MEMORY', rank: 7, cell: (line) => (line.bytes === null ? null : bytes(line.bytes)) },
];
/**
 * If the table is too wide for the terminal, names of subscribers are shortened, but not below MIN_NAME_WIDTH. If the
 * table is still too wide, columns are left out, the highest rank first. When only the columns up to rank MAIN_RANK are
 * left, names may be shortened to MIN_NAME_WIDTH_OF_MAIN before more columns are left out.
 */
const MIN_NAME_WIDTH = 20;
const MAIN_RANK = 4;
const MIN_NAME_WIDTH_OF_MAIN = 12;
const GAP = '  ';

/**
 * Returns the lines of a report, none wider than `width`. Figures that do not fit go to a further line, or are left
 * out. Names, addresses and texts that are wider than a line are shortened.
 */
export function topLines(report: BusReport, url: string, width: number): string[] {
  const { published_rate, delivered_rate, failed_rate, memory_bytes, memory_max_bytes } = report;
  const { topics, partitions_away } = report;
  const limit = memory_max_bytes > 0 ? ` of ${bytes(memory_max_bytes)}` : '';
  const time = new Date().toTimeString().slice(0, 8);
  const heads = [
    [url, time, `workers ${workersText(report)}`, `memory ${bytes(memory_bytes)}${limit}`],
    [
      `published ${rate(published_rate)}/s`,
      `delivered ${rate(delivered_rate)}/s`,
      `failed deliveries ${rate(failed_rate)}/s`,
    ],
    [
      ...[`queued ${number(report.queued)}`, `oldest ${duration(report.oldest_seconds)}`],
      ...[`dead letters ${number(report.dead_letters)}`, `paused ${number(report.paused)}`],
    ],
    topics.length === 0
      ? []
      : ['busiest topics', ...topics.map((each) => `${each.topic} ${rate(each.published_rate)}/s`)],
    partitions_away.length === 0 ? [] : [partitionsAwayText(partitions_away), missingText(partitions_away)],
  ];
  return [...heads.flatMap((items) => wrapped(items, width)), '', ...fittingTable(report.subscribers, width)];
}

/**
 * Says which figures are missing. While partition 0, which knows the clients, is away, the bus leaves out the figures
 * of all subscribers. Sums such as the queued events are then 0.
 */
function missingText(away: readonly number[]): string {
  return `their figures${away.includes(0) ? ', and those of all subscribers,' : ''} are missing`;
}

function wrapped(items: readonly string[], width: number): string[] {
  const lines: string[] = [];
  for (const item of items.map((each) => shortened(each, width))) {
    const longer = [...lines.slice(-1), item].join(GAP);
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer;
    else lines.push(item);
  }
  return lines;
}

function fittingTable(subscribers: readonly Subscriber[], width: number): string[] {
  for (let rank = COLUMNS.length; ; rank--) {
    const columns = COLUMNS.filter((each) => each.rank <= rank);
    const heads = columns.map(({ head }) => head);
    const rows = subscribers.map((line) => columns.map(({ cell }) => cell(line)));
    const lines = table(heads, rows);
    const excess = longest(lines) - width;
    if (excess <= 0) return lines;
    const nameWidth = longest([heads[0] ?? '', ...subscribers.map((each) => each.subscriber)]) - excess;
    if (nameWidth < (rank > MAIN_RANK ? MIN_NAME_WIDTH : MIN_NAME_WIDTH_OF_MAIN) && rank > 1) continue;
    return table(
      heads.map((head, column) => (column === 0 ? shortened(head, nameWidth) : head)),
      rows.map(([name, ...others]) => [shortened(String(name), nameWidth), ...others]),
    );
  }
}

function longest(texts: readonly string[]): number {
  return texts.reduce((length, text) => Math.max(length, text.length), 0);
}

function shortened(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, Math.max(0, width - 1))}…` : text;
}

/** Returns the state of a subscriber, or `left` if it has left the bus. */
function shownState({ health, queued, paused }: Subscriber): string {
  return health === null ? 'left' : stateOf(health, queued, paused);
}

export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${(count / 1024 ** step).toFixed(step === 0 ? 0 : 1)} ${units[step]}`;
}
