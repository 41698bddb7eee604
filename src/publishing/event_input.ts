import { BusError } from '../errors.ts';
import { parseJson } from '../json.ts';
import type { Packed } from '../store/packed.ts';
import { DEEPEST_DATA, EVENT_TYPES, type EventType, packData, packEvent } from './event.ts';

const MOST_EVENTS = 10_000;
const LONGEST_URL = 1024;
const FIELDS = new Set(['type', 'url', 'timestamp', 'data']);
const TYPES: ReadonlySet<unknown> = new Set(EVENT_TYPES);
// Printable ASCII and beyond: no white space, no control characters.
const HTTPS_URL = /^https:\/\/[^\s\p{Cc}]+$/iu;

/** What is wrong with one event; `field` is missing where it is the event as a whole. */
class BadEvent extends Error {
  readonly field: string | undefined;

  constructor(field: string | undefined, message: string) {
    super(message);
    this.field = field;
  }
}

export interface EventLimits {
  maxEventDataBytes: number;
}

/**
 * Reads the body of a publish into packed events: one event, an array, or NDJSON. All are right, or it throws
 * bad_event with the `field` (and the `index`, where there can be several), bad_body, or body_too_large.
 */
export function readEvents(
  text: string,
  ndjson: boolean,
  topic: string,
  nowMs: number,
  limits: EventLimits,
): Packed[] {
  const body = ndjson ? parseLines(text) : parseBody(text);
  if (!Array.isArray(body)) return [readOne(body, undefined, topic, nowMs, limits)];
  if (body.length === 0) throw new BusError('bad_event', 'there are no events in the body');
  checkCount(body.length);
  return body.map((value, index) => readOne(value, index, topic, nowMs, limits));
}

/** One after the other, on a line each, or on one line. */
const A_LINE_EACH = /\}[ \t\r]*\n[ \t\r\n]*\{/;
const ONE_LINE = /\}[ \t\r]*\{/;

function parseBody(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw advised(
      error,
      A_LINE_EACH.test(text) && 'events a line each are sent with Content-Type: application/x-ndjson',
    );
  }
}

/** One event a line; empty lines are none. */
function parseLines(text: string): unknown[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  checkCount(lines.length);
  return lines.map((line, index) => parseLine(line, index));
}

function parseLine(line: string, index: number): unknown {
  try {
    return parseJson(line, `event ${index} (one a line)`, { index });
  } catch (error) {
    throw advised(
      error,
      ONE_LINE.test(line) && 'its line has several: send line ends along, with curl by --data-binary',
    );
  }
}

function advised(error: unknown, advice: string | false): unknown {
  if (!(error instanceof BusError) || !advice) return error;
  return new BusError(error.code, `${error.message}; ${advice}`, { cause: error, members: error.members });
}

function checkCount(events: number): void {
  if (events <= MOST_EVENTS) return;
  throw new BusError('body_too_large', `${events} events in one request; send ${MOST_EVENTS} at most`);
}

function readOne(
  value: unknown,
  index: number | undefined,
  topic: string,
  nowMs: number,
  limits: EventLimits,
): Packed {
  try {
    return pack(value, topic, nowMs, limits);
  } catch (error) {
    if (!(error instanceof BadEvent)) throw error;
    const where = index === undefined ? '' : `event ${index}: `;
    const members = {
      ...(index === undefined ? {} : { index }),
      ...(error.field === undefined ? {} : { field: error.field }),
    };
    throw new BusError('bad_event', where + error.message, { members });
  }
}

function pack(value: unknown, topic: string, nowMs: number, limits: EventLimits): Packed {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadEvent(undefined, 'an event is an object such as {"type":"create","url":"https://…"}');
  }
  for (const field in value) {
    if (!FIELDS.has(field))
      throw new BadEvent(field, `unknown field ${JSON.stringify(field)}; use type, url, timestamp, data`);
  }
  const { type, url, timestamp, data } = value as Record<string, unknown>;
  if (!TYPES.has(type)) throw new BadEvent('type', `type must be one of ${EVENT_TYPES.join(', ')}`);
  const event = {
    topic,
    type: type as EventType,
    url: readUrl(url),
    timestamp: readTimestamp(timestamp, nowMs),
  };
  return packEvent(event, readData(data, limits.maxEventDataBytes));
}

function readUrl(url: unknown): string {
  if (typeof url !== 'string') throw new BadEvent('url', 'url must be a string');
  if (url.length > LONGEST_URL) throw new BadEvent('url', `url must have at most ${LONGEST_URL} characters`);
  if (!HTTPS_URL.test(url) || !URL.canParse(url)) throw new BadEvent('url', 'url must be an https:// URL');
  return url;
}

function readTimestamp(timestamp: unknown, nowMs: number): number {
  if (timestamp === undefined || timestamp === null) return nowMs;
  if (Number.isSafeInteger(timestamp)) return timestamp as number;
  throw new BadEvent('timestamp', 'timestamp must be a whole number of milliseconds since 1970');
}

function readData(data: unknown, maxBytes: number): Packed {
  let packed: Packed;
  try {
    packed = packData(data);
  } catch {
    throw new BadEvent('data', `data must not be nested deeper than ${DEEPEST_DATA} levels`);
  }
  if (packed.length <= maxBytes) return packed;
  throw new BadEvent(
    'data',
    `data has ${packed.length} bytes as MessagePack; ROUTEMASTER_MAX_EVENT_DATA allows ${maxBytes}`,
  );
}
