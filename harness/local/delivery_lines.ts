import type { DeliveredEvent } from '../http/receiver.ts';
import type { Delivery } from './sample_receiver.ts';

const longestData = 80;

/**
 * Returns a delivered batch as readable lines: one for what was dropped before it, one for the batch, and one
 * for each event.
 */
export function deliveryLines({ id, attempt, gap, events }: Delivery, nowMs = Date.now()): string[] {
  const count = `${events.length} ${events.length === 1 ? 'event' : 'events'}`;
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  const topicWidth = Math.max(0, ...events.map((event) => String(event.topic).length));
  const missing = gap === undefined ? [] : [`dropped for lack of memory: ${gap}`];
  const shown = events.map((event) => eventLine(event, topicWidth, nowMs));
  return [...missing, `batch ${id}: ${count}${again}`, ...shown];
}

function eventLine(
  { id, topic, type, url, t, data }: DeliveredEvent,
  topicWidth: number,
  nowMs: number,
): string {
  const text = data === undefined ? '' : `  ${JSON.stringify(data)}`;
  const shown = text.length > longestData ? `${text.slice(0, longestData)}…` : text;
  return `  ${id}  ${String(topic).padEnd(topicWidth)}  ${String(type).padEnd(6)}  ${url}  ${age(nowMs - t)}${shown}`;
}

function age(ageMs: number): string {
  return ageMs < 10_000 ? `${Math.max(0, ageMs)} ms old` : `${Math.round(ageMs / 1000)} s old`;
}
