import type { Batch } from './batch.ts';
import { OPENING_BRACE } from './legacy_event.ts';

/**
 * The delivery log says how many events of each topic a batch had, if the batch is within these limits. Counting the
 * topics of a larger batch would take more than 1 % of the CPU of its delivery.
 */
const MAX_COUNTED_EVENTS = 10;
const MAX_COUNTED_BYTES = 16 * 1024;
/**
 * Maximum length of the JSON with the number of events by topic. A record leaves out a longer JSON, so that it stays
 * small.
 */
const MAX_TOPICS_LENGTH = 256;

/**
 * Matches the start of each event in JSON. A string in the data of an event may match too. In that case, `topicsJson`
 * finds more starts than events, and parses the JSON instead.
 */
const EVENT = /(?:^|,)\{"id":"[^"]*","topic":"(\w+)"/g;

interface LastAttempt {
  atMs: number;
  durationMs: number;
  /** The status of the answer. Null for the batch of a join, which is accepted without a request. */
  status: number | null;
}

/**
 * Returns the record of an accepted batch: what the delivery log keeps of it. The script that ends the job adds the
 * times at which the batch was closed and accepted.
 */
export function takenRecord(batch: Batch, { atMs, durationMs, status }: LastAttempt): string {
  const { createdAtMs, count, attempts, pieces } = batch;
  let bytes = pieces.length + 1;
  for (const piece of pieces) bytes += piece.length;
  const topics = topicsJson(pieces, count, bytes);
  return `${createdAtMs},${count},${attempts},${topics},${bytes},${atMs},${status},${Math.round(durationMs)}`;
}

/**
 * Returns the number of events by topic, as JSON: `null` if the batch is large, an event is not JSON, or the result is
 * too long.
 */
function topicsJson(pieces: readonly Buffer[], count: number, bytes: number): string {
  if (count > MAX_COUNTED_EVENTS || bytes > MAX_COUNTED_BYTES) return 'null';
  if (pieces.some((piece) => piece[0] !== OPENING_BRACE)) return 'null';
  const text = pieces.join(',');
  let topics: (string | undefined)[] = [];
  for (const match of text.matchAll(EVENT)) topics.push(match[1]);
  if (topics.length < count) return 'null';
  if (topics.length > count)
    topics = (JSON.parse(`[${text}]`) as { topic: string }[]).map((each) => each.topic);
  const counts = new Map<string | undefined, number>();
  for (const topic of topics) counts.set(topic, (counts.get(topic) ?? 0) + 1);
  const json = JSON.stringify(Object.fromEntries(counts));
  return json.length > MAX_TOPICS_LENGTH ? 'null' : json;
}
