import type { ReceivedEvent } from '@routemaster/receiver';
import { jsonText } from './long_numbers.ts';

/** Returns the lines of a table, with its columns aligned. */
export function table(heads: readonly string[], rows: readonly (readonly unknown[])[]): string[] {
  const cells = [heads, ...rows].map((row) => row.map((value) => textOf(value)));
  const widths = heads.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells.map((row) =>
    row
      .map((text, column) => text.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

/** Matches the name of a field that is a time, such as `paused_at` in the API. `members` shows it as a date. */
const TIME = /(_at|^at|^oldest|^from|^to|^start|^end)$/;

/**
 * Returns a line for each field of the object, with its name and value. A field of a nested object is named with its
 * path, such as `events.queued`. Times are written as dates.
 */
export function members(record: object): string[] {
  const all = Object.entries(record).flatMap(([name, value]: [string, unknown]) => {
    const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (!isRecord) return [member(name, value)];
    return Object.entries(value).map(([own, inner]) => member(own, inner, `${name}.`));
  });
  const width = Math.max(...all.map(({ name }) => name.length)) + 2;
  return all.map(({ name, text }) => `${name.padEnd(width)}${text}`.trimEnd());
}

function member(name: string, value: unknown, prefix = '') {
  const text = typeof value === 'number' && TIME.test(name) ? timeOf(value) : textOf(value);
  return { name: prefix + name, text };
}

/** Returns a line with the time, topic, type, URL and data of an event. */
export function eventLine({ t, topic, type, url, data }: ReceivedEvent): string {
  const parts = [timeOf(t), topic, type, url, ...(data === undefined ? [] : [jsonText(data)])];
  return parts.map(textOf).join(' ');
}

interface Attempt {
  at: number;
  status: number | null;
  duration_ms: number;
  reason: string | null;
  answer: string | null;
}

/** Returns the lines that show a batch: its fields, its attempts as a table, and a line for each event. */
export function batchLines(
  record: object,
  attempts: readonly Attempt[],
  events: readonly object[] = [],
): string[] {
  const rows = attempts.map((each) => {
    return [timeOf(each.at), each.status, each.duration_ms, each.reason, each.answer];
  });
  const lines = events.map((event) =>
    'undecodable' in event ? textOf(event) : eventLine(event as ReceivedEvent),
  );
  return [
    ...members(record),
    ...(rows.length === 0 ? [] : ['', ...table(['AT', 'STATUS', 'MS', 'REASON', 'ANSWER'], rows)]),
    ...(lines.length === 0 ? [] : ['', ...lines]),
  ];
}

/** Matches what a terminal would obey: control characters, and characters that turn the direction of text. */
const OBEYED = /[\p{Cc}\p{Bidi_Control}]/gu;

/** Returns the value as text. Characters that a terminal would obey are escaped as in JSON. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text = typeof value === 'object' ? jsonText(value) : String(value);
  return text.replace(OBEYED, escaped);
}

/**
 * Returns the value as JSON. Characters that a terminal would obey are escaped, even those that JSON leaves unescaped.
 */
export function jsonOf(value: unknown): string {
  return jsonText(value).replace(OBEYED, escaped);
}

function escaped(character: string): string {
  if (character < '\x7f') return JSON.stringify(character).slice(1, -1);
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Writes a time (ms) as a date, or as a number if it is too large for a date. */
export function timeOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

/** Writes a number with separators, such as 1,204. */
export function number(count: number): string {
  return count.toLocaleString('en-US');
}

/** Writes a duration, such as 1.5 s, 40 min or 3 h; `-` if it is 0. */
export function duration(seconds: number): string {
  if (seconds === 0) return '-';
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** Writes a rate, such as 4.2 or 1,204; `-` if it is not known. */
export function rate(perSecond: number | null): string {
  if (perSecond === null) return '-';
  return perSecond < 10 && perSecond > 0 ? perSecond.toFixed(1) : number(Math.round(perSecond));
}
