import { type Content, type Html, html } from '../html.ts';
import type { Delivery } from '../records/delivery.ts';
import { readableJson } from './fields.ts';
import { copyable } from './parts.ts';

/**
 * Maximum events of a batch that a page shows. Once the shown events have MAX_SHOWN characters, no further event is
 * shown. A longer page would be slow.
 */
const [MAX_EVENTS_SHOWN, MAX_SHOWN] = [100, 131_072];

type Attempt = Delivery['attempts'][number];

/**
 * Returns the outcome of an attempt: its HTTP status or, if there is none, a text such as `no answer`. `join` is the
 * name of the join if the batch belongs to one. Attempts for a join have no status, because the bus counts the events
 * of the batch and sends no request.
 */
export function outcomeOf({ status, reason }: Pick<Attempt, 'status' | 'reason'>, join?: string): string {
  if (join !== undefined) return reason === null ? 'counted' : 'not counted';
  return status === null ? 'no answer' : String(status);
}

/**
 * Returns what a table shows as the outcome of an attempt: its HTTP status or, if there is none, the beginning of the
 * reason up to the first colon, such as `ECONNREFUSED`. For a join, or without a reason, returns the text of
 * `outcomeOf`.
 */
export function outcomeShown(attempt: Pick<Attempt, 'status' | 'reason'>, join?: string): Content {
  const why = join === undefined ? attempt.reason?.split(': ')[0] : undefined;
  return attempt.status ?? html`<span class="none">${why ?? outcomeOf(attempt, join)}</span>`;
}

/**
 * The console cuts off the list of events in the JSON of a long batch. It then ends the JSON with this text (see
 * `ending` in api_calls.ts).
 */
export const BATCH_ENDING = '],"bytes":null,"topics":null}';

/**
 * Returns the first events of a batch, each folded up until a person clicks on it. If the batch has more (`count`),
 * adds a hint that names the API call that returns all (`call`).
 */
export function eventsShown(
  events: readonly Record<string, unknown>[],
  count: number,
  call: string,
): Content {
  const shown: Html[] = [];
  let length = 0;
  for (const event of events.slice(0, MAX_EVENTS_SHOWN)) {
    if (length >= MAX_SHOWN) break;
    const next = eventShown(event);
    length += next.text.length;
    shown.push(next);
  }
  return [
    shown,
    count > shown.length &&
      html`<p class="hint">The first ${shown.length} are shown; <code>${call}</code> has all.</p>`,
  ];
}

function eventShown(event: Record<string, unknown>): Html {
  const title = `${event.topic ?? ''} ${event.type ?? ''} ${event.url ?? ''}`;
  return html`<details class="event"><summary class="mono">${title}</summary>${copyable(readableJson(event))}</details>`;
}
