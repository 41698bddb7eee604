import { BusError } from '../errors.ts';
import {
  hasMoreDelimiters,
  isDeep,
  MAX_CHARACTERS_PER_BYTE,
  parseJson,
  SHORT_TEXT,
  trimmed,
} from '../json.ts';
import { ArrayPieces, isArray, type MaxSize } from './array_pieces.ts';
import { asProblem, BadEvent, type EventLimits, type ReadEvent, readEvent, tooDeep } from './event_fields.ts';

export const MAX_EVENTS = 10_000;
/** Maximum characters of an event apart from its data. */
const ENVELOPE_LENGTH = 16_384;
/** Number of characters of NDJSON that are read, in about a millisecond, before other requests are served. */
const STEP_LENGTH = 16_384;

interface EventBody {
  text: string;
  isNdjson: boolean;
  topic: string;
  nowMs: number;
  limits: EventLimits;
}

/** True if a body is so long that `readInSteps` should read it. */
export function isLong({ text }: Pick<EventBody, 'text'>): boolean {
  return text.length > SHORT_TEXT;
}

/** Reads a short body without pauses. Has the same result and the same errors as `readInSteps`. */
export function readEvents(body: EventBody): ReadEvent[] {
  const steps = readInSteps(body);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/**
 * Reads a body: one event, an array of events, or NDJSON. Yields about once a millisecond, so that other requests are
 * served. Throws bad_body, body_too_large or bad_event. A bad_event names the wrong `field` and, if the body can have
 * several events, the `index` of the event.
 */
export function* readInSteps(body: EventBody): Generator<void, ReadEvent[]> {
  const { text, isNdjson } = body;
  const max = maxSizeIn(body);
  // Reading the first character of a long text makes V8 copy the text, which takes 3 to 5 ms for 5 MB. Other requests
  // are served before and after the copying.
  yield;
  // `max` limits each event, not the whole body, so an array that is longer is parsed in pieces.
  const isInPieces = !isNdjson && (isLong(body) || text.length > max.length) && isArray(text);
  yield;
  const events: ReadEvent[] = [];
  if (isNdjson || isInPieces) {
    for (const values of isNdjson ? parseLines(text, max) : parsePieces(text, max)) {
      addTo(events, values, body);
      yield;
    }
  } else {
    const value = parseBody(text, max);
    if (!Array.isArray(value)) return [readEvent(value, undefined, body)];
    addTo(events, value, body);
  }
  if (events.length === 0) throw new BusError('bad_event', 'there are no events in the body');
  return events;
}

/**
 * Returns the maximum length of an event's text, and the maximum number of delimiters (brackets, commas and quotes) in
 * it. Fewer delimiters than characters are allowed, because delimiters take long to parse.
 */
function maxSizeIn({ limits: { maxEventDataBytes } }: EventBody): MaxSize {
  return {
    length: MAX_CHARACTERS_PER_BYTE * maxEventDataBytes + ENVELOPE_LENGTH,
    delimiters: maxEventDataBytes + ENVELOPE_LENGTH,
  };
}

/** Checks parsed events and appends them to `events`. Throws bad_event, or body_too_large above MAX_EVENTS. */
function addTo(events: ReadEvent[], values: readonly unknown[], body: EventBody): void {
  if (events.length + values.length > MAX_EVENTS) {
    const detail = `more than ${MAX_EVENTS} events in one request; send ${MAX_EVENTS} at most`;
    throw new BusError('body_too_large', detail);
  }
  for (const value of values) events.push(readEvent(value, events.length, body));
}

/**
 * Match a mistake: several events without an array around them, on a line each or all on one line. The error message
 * then says how to send several events.
 */
const A_LINE_EACH = /\}[ \t\r]*\n[ \t\r\n]*\{/;
const ONE_LINE = /\}[ \t\r]*\{/;

function parseBody(text: string, max: MaxSize): unknown {
  const json = text.length > max.length ? trimmed(text) : text;
  try {
    refuseHuge(json, max);
    return parseJson(json);
  } catch (error) {
    throw advised(error, adviceFor(json));
  }
}

function adviceFor(json: string): string | false {
  if (A_LINE_EACH.test(json)) return 'events a line each are sent with Content-Type: application/x-ndjson';
  return (
    ONE_LINE.test(json) &&
    !isArray(json) &&
    'send several events as an array, or a line each with Content-Type: application/x-ndjson, with curl by --data-binary'
  );
}

function* parsePieces(text: string, max: MaxSize): Generator<unknown[]> {
  const pieces = new ArrayPieces(text);
  let count = 0;
  for (let isLast = false; !isLast; ) {
    const piece = yield* pieces.next(max);
    if (piece.isTooLong) throw asProblem(piece.isTooDeep ? tooDeep() : tooLong(max), count);
    const values = parseJson(`[${piece.text}]`) as unknown[];
    isLast = piece.isLast;
    const isEmptyArray = count === 0 && isLast;
    if ((values.length === 0 && !isEmptyArray) || (isLast && !pieces.isClosed)) {
      const detail = 'the body is not JSON: its array has an empty place, or no end, or something behind it';
      throw new BusError('bad_body', detail);
    }
    count += values.length;
    yield values;
  }
}

function* parseLines(text: string, max: MaxSize): Generator<unknown[]> {
  let values: unknown[] = [];
  let [lineNumber, index, stepEnd] = [0, 0, STEP_LENGTH];
  for (let start = 0, end = 0; start < text.length; start = end + 1) {
    end = text.indexOf('\n', start);
    if (end < 0) end = text.length;
    const line = text.slice(start, end);
    lineNumber++;
    if (line.trim() !== '') values.push(parseLine(line, lineNumber, index++, max));
    if (end < stepEnd) continue;
    yield values;
    values = [];
    stepEnd = end + STEP_LENGTH;
  }
  yield values;
}

function parseLine(line: string, lineNumber: number, index: number, max: MaxSize): unknown {
  try {
    refuseHuge(line, max, index);
    return parseJson(line, `line ${lineNumber} (event ${index}, counted from 0)`, { index });
  } catch (error) {
    throw advised(
      error,
      ONE_LINE.test(line) && 'its line has several: send line ends along, with curl by --data-binary',
    );
  }
}

/**
 * Throws if JSON text is too long for an event. Text that is longer than SHORT_TEXT is also refused if it is nested too
 * deeply or has too many delimiters (brackets, commas and quotes outside of strings). These checks come before the
 * parsing, which takes several times as long.
 */
function refuseHuge(json: string, max: MaxSize, index?: number): void {
  if (json.length <= SHORT_TEXT && json.length <= max.length) return;
  if (isDeep(json.slice(0, max.length))) throw asProblem(tooDeep(), index);
  if (json.length > max.length || hasMoreDelimiters(json, max.delimiters))
    throw asProblem(tooLong(max), index);
}

function tooLong({ length, delimiters }: MaxSize): BadEvent {
  const what = `the event has more than ${length} characters, or ${delimiters} brackets, commas and quotes`;
  return new BadEvent('data', `${what}, too many for what ROUTEMASTER_MAX_EVENT_DATA allows`);
}

function advised(error: unknown, advice: string | false): unknown {
  if (!(error instanceof BusError) || !advice) return error;
  return new BusError(error.code, `${error.message}; ${advice}`, { cause: error, members: error.members });
}
