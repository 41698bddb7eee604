import type { Batch } from './batch.ts';

/**
 * The delivery log says how many events of each topic a batch had, if the batch is within these limits. Counting the
 * topics of a larger batch would take more than 1 % of the CPU of its delivery.
 */
const MAX_COUNTED_EVENTS = 10;
const MAX_COUNTED_BYTES = 16 * 1024;
/**
 * Maximum length of the JSON with the number of events by topic. A longer JSON is left out, so that all records are
 * small.
 */
const MAX_TOPICS_LENGTH = 256;

const BEFORE_ID = '{"id":"'.length;
const BEFORE_TOPIC = '","topic":"'.length;
const COMMA = ','.length;
/** Only this many bytes of an event are searched for its topic: id and topic have at most 64 characters each. */
const MAX_HEAD_BYTES = 160;
const [QUOTE, BACKSLASH, OPENING, CLOSING] = [0x22, 0x5c, 0x7b, 0x7d];

interface LastAttempt {
  atMs: number;
  durationMs: number;
  /** The status of the answer. Null for the batch of a join, which is accepted without a request. */
  status: number | null;
}

/**
 * Returns the record of an accepted batch for the delivery log. A script adds the times at which the batch was accepted
 * and closed.
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
  const counts = new Map<string, number>();
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      if (piece[at] !== OPENING) return 'null';
      // The start of the event is searched as a string, since searching the buffer took four times as long.
      const head = piece.toString('latin1', at + BEFORE_ID, at + MAX_HEAD_BYTES);
      const from = head.indexOf('"') + BEFORE_TOPIC;
      const to = head.indexOf('"', from);
      if (to < 0) return 'null';
      const topic = head.slice(from, to);
      if (count === 1) return `{"${topic}":1}`;
      counts.set(topic, (counts.get(topic) ?? 0) + 1);
      at = endOfEvent(piece, at + BEFORE_ID + to + 1) + COMMA;
    }
  }
  const json = JSON.stringify(Object.fromEntries(counts));
  return json.length > MAX_TOPICS_LENGTH ? 'null' : json;
}

/**
 * Returns the position in `piece` after the end of an event. `from` is the position just after the topic of this event.
 */
function endOfEvent(piece: Buffer, from: number): number {
  let [at, depth, isText] = [from, 1, false];
  for (; depth > 0 && at < piece.length; at++) {
    const byte = piece[at];
    if (byte === QUOTE) isText = !isText;
    else if (isText && byte === BACKSLASH) at++;
    else if (!isText && byte === OPENING) depth++;
    else if (!isText && byte === CLOSING) depth--;
  }
  return at;
}
