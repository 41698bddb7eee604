import type { Config } from '../config.ts';
import type { EventDialect } from '../dialect.ts';
import { BusError } from '../errors.ts';
import { eventId } from '../ids.ts';
import { parseJson } from '../json.ts';
import { EVENT_TYPES, type EventType, eventText } from './event.ts';

const MAX_EVENTS = 10_000;
export const MAX_DATA_DEPTH = 64;
const FIELDS = new Set(['id', 'type', 'url', 'timestamp', 'data']);
// Visible ASCII characters that JSON does not escape.
const ID = /^[!#-[\]-~]{1,64}$/;
const TYPES: ReadonlySet<unknown> = new Set(EVENT_TYPES);
// No white space and no control characters.
const HTTPS_URL = /^https:\/\/[^\s\p{Cc}]+$/iu;

/** An error in one event. `field` is undefined if the event as a whole is wrong. */
class BadEvent extends Error {
  readonly field: string | undefined;

  constructor(field: string | undefined, message: string) {
    super(message);
    this.field = field;
  }
}

/** What may be in an event. */
export type EventRules = EventDialect & Pick<Config, 'maxEventDataBytes'>;

/**
 * Reads the body of a publish (an event, an array, or NDJSON) into the texts of its events. Throws bad_body,
 * body_too_large, or bad_event with the `field`, and with the `index` if there can be several events.
 */
export function readEvents(
  text: string,
  ndjson: boolean,
  topic: string,
  nowMs: number,
  rules: EventRules,
): string[] {
  const body = ndjson ? parseLines(text) : parseBody(text);
  if (!Array.isArray(body)) return [readOne(body, undefined, topic, nowMs, rules)];
  if (body.length === 0) throw new BusError('bad_event', 'there are no events in the body');
  checkCount(body.length);
  return body.map((value, index) => readOne(value, index, topic, nowMs, rules));
}

/** Match events that follow each other without an array: on separate lines, or on one line. */
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
  if (events <= MAX_EVENTS) return;
  throw new BusError('body_too_large', `${events} events in one request; send ${MAX_EVENTS} at most`);
}

function readOne(
  value: unknown,
  index: number | undefined,
  topic: string,
  nowMs: number,
  rules: EventRules,
): string {
  try {
    return read(value, topic, nowMs, rules);
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

function read(value: unknown, topic: string, nowMs: number, rules: EventRules): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadEvent(undefined, 'an event is an object such as {"type":"create","url":"https://…"}');
  }
  for (const field in value) {
    if (!rules.ignoresUnknownFields && !FIELDS.has(field))
      throw new BadEvent(field, `unknown field ${JSON.stringify(field)}; use ${[...FIELDS].join(', ')}`);
  }
  const { id, type, url, timestamp, data } = value as Record<string, unknown>;
  if (!TYPES.has(type)) throw new BadEvent('type', `type must be one of ${EVENT_TYPES.join(', ')}`);
  return eventText({
    id: readId(id),
    topic,
    type: type as EventType,
    url: readUrl(url, rules.maxUrlLength),
    timestamp: readTimestamp(rules.loosensTimestamps ? loosened(timestamp) : timestamp, nowMs),
    data: readData(data, rules.maxEventDataBytes),
  });
}

function readId(id: unknown): string {
  if (id === undefined || id === null) return eventId();
  if (typeof id === 'string' && ID.test(id)) return id;
  throw new BadEvent('id', 'id must be a string of 1 to 64 visible ASCII characters other than " and \\');
}

function readUrl(url: unknown, maxLength: number): string {
  if (typeof url !== 'string') throw new BadEvent('url', 'url must be a string');
  if (url.length > maxLength) throw new BadEvent('url', `url must have at most ${maxLength} characters`);
  if (!HTTPS_URL.test(url) || !URL.canParse(url)) throw new BadEvent('url', 'url must be an https:// URL');
  return url;
}

function readTimestamp(timestamp: unknown, nowMs: number): number {
  if (timestamp === undefined || timestamp === null) return nowMs;
  if (Number.isSafeInteger(timestamp)) return timestamp as number;
  throw new BadEvent('timestamp', 'timestamp must be a whole number of milliseconds since 1970');
}

/** Returns what a timestamp of a client of the Ruby Routemaster means: false is none, texts may hold numbers. */
function loosened(timestamp: unknown): unknown {
  if (timestamp === false) return undefined;
  if (typeof timestamp === 'string' && /^-?\d{1,15}$/.test(timestamp)) return Number(timestamp);
  return typeof timestamp === 'number' ? Math.trunc(timestamp) : timestamp;
}

function readData(data: unknown, maxBytes: number): string | undefined {
  if (data === undefined || data === null) return undefined;
  if (isDeeper(data, MAX_DATA_DEPTH))
    throw new BadEvent('data', `data must not be nested deeper than ${MAX_DATA_DEPTH} levels`);
  const text = JSON.stringify(data);
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxBytes) return text;
  throw new BadEvent(
    'data',
    `data has ${bytes} bytes as JSON; ROUTEMASTER_MAX_EVENT_DATA allows ${maxBytes}`,
  );
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return !JSON.isRawJSON(value);
  return Object.values(value).some((each) => isDeeper(each, levels - 1));
}
