import { type Html, html } from '../html.ts';

const UNITS = ['', ' k', ' M', ' G', ' T'];
const BYTE_UNITS = [' B', ' KiB', ' MiB', ' GiB', ' TiB'];

/** Writes a number in a short form such as 950, 1.2 k, 38 k, or 4.5 M. */
export function number(value: number): string {
  return scaled(value, 1000, UNITS);
}

/** Writes a number of bytes in a short form such as 950 B, 1.2 KiB, or 38 MiB. */
export function bytes(value: number): string {
  return scaled(value, 1024, BYTE_UNITS);
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let [rest, unit] = [value, 0];
  // The unit is chosen by the rounded number: 999,960 becomes 1.0 M, not 1000 k.
  while (Math.round(Math.abs(rest)) >= step && unit < units.length - 1)
    [rest, unit] = [rest / step, unit + 1];
  const digits =
    Number.isInteger(rest) || Math.abs(rest) >= 9.95 ? Math.round(rest).toString() : rest.toFixed(1);
  return digits + units[unit];
}

/** Writes a number of events a second in a short form such as 1.2 k/s, 30/min, or 12/h. */
export function rate(perSecond: number): string {
  if (perSecond === 0 || perSecond >= 1) return `${number(perSecond)}/s`;
  const rounded = (value: number) => Number(value.toPrecision(3));
  const perMinute = rounded(perSecond * 60);
  return perMinute >= 1 ? `${number(perMinute)}/min` : `${number(rounded(perSecond * 3600))}/h`;
}

/** Writes a duration in a short form such as 12 ms, 4.5 s, 3 min, 5 h, or 2 d. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const [length, unit] = PARTS.find(([length]) => ms >= length) ?? PARTS[0];
  return `${Math.floor(ms / length)} ${unit}`;
}

const PARTS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
  [1, 'ms'],
] as const;

/** Writes a duration exactly, for settings: 500 ms, 1 min 30 s, or 1 d 12 h. */
export function exactDuration(ms: number): string {
  const written: string[] = [];
  let rest = ms;
  for (const [length, unit] of PARTS) {
    if (rest >= length) written.push(`${Math.floor(rest / length)} ${unit}`);
    rest %= length;
  }
  return written.join(' ') || '0 ms';
}

/** Writes a number with its noun, such as "1 event" or "2 events". */
export function count(value: number, singular: string, plural = `${singular}s`): string {
  return `${number(value)} ${value === 1 ? singular : plural}`;
}

/** Writes how long ago something was, such as "4 min ago", or "now". */
export function past(ms: number): string {
  return Math.round(ms) < 1 ? 'now' : `${duration(ms)} ago`;
}

/** Returns "4 min ago" or "in 4 min". The tooltip has the exact time, in the reader's time zone if scripts run. */
export function ago(atMs: number | null | undefined, nowMs: number): Html {
  if (atMs === null || atMs === undefined) return html`<span class="none">never</span>`;
  const iso = new Date(atMs).toISOString();
  const text = atMs > nowMs + 999 ? `in ${duration(atMs - nowMs)}` : past(nowMs - atMs);
  return html`<time datetime="${iso}" title="${iso}">${text}</time>`;
}
