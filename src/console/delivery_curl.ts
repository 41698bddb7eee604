import { escapeOf } from '../json.ts';
import type { WholeDelivery } from '../records/deliveries_api.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';

/**
 * Maximum characters that the events of a batch, as JSON, may have in the curl command. If they have more, the command
 * fetches the events from the API instead.
 */
const MAX_BODY = 8000;

/** Matches control characters, and those that change the direction of text. A terminal would not show them. */
const UNSEEN = /\p{Bidi_Control}|\p{Cc}/gu;

/**
 * Returns a shell command that POSTs the events of a batch as the bus does, and a note for its user. The command
 * contains no secret: it has no signature, and takes the user name (the subscription's `uuid`) from a shell
 * variable.
 */
export function curlOfDelivery(
  { id, attempt_count, event_count, events = [] }: WholeDelivery,
  { callback, signing }: Pick<SubscriberReport, 'callback' | 'signing'>,
): { command: string; note: string } {
  const body = JSON.stringify(events).replace(UNSEEN, escapeOf);
  const isWhole = events.length === event_count && body.length <= MAX_BODY;
  const data = isWhole ? quote(body) : '@-';
  const asking = `curl -sS -u "$CREDENTIALS" "$BUS/deliveries/${id}" | jq -c .events | `;
  // Without -g, curl would expand brackets and braces in the callback to several URLs.
  const lines = [
    `${isWhole ? '' : asking}curl -i -g ${quote(callback)}`,
    '-u "$DELIVERY_UUID:x"',
    "-H 'Content-Type: application/json'",
    "-H 'User-Agent: routemaster'",
    `-H 'webhook-id: ${id}'`,
    `-H 'routemaster-attempt: ${attempt_count + 1}'`,
    `--data-binary ${data}`,
  ];
  const notes = [
    'DELIVERY_UUID is the uuid of the subscription.',
    !isWhole &&
      'Its events are many, so the command asks the bus for them: set BUS and CREDENTIALS, and have jq.',
    signing !== null && 'The bus signs its deliveries; this one has no signature, which needs the key.',
  ];
  return { command: lines.join(' \\\n  '), note: notes.filter(Boolean).join(' ') };
}

/** Quotes a text for a shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
