import type { Config } from '../config.ts';
import { BusError } from '../errors.ts';
import { eventId } from '../ids.ts';
import type { EventDialect } from '../routing/dialect.ts';
import { canParseUrl } from '../urls.ts';
import { EVENT_TYPES, type Event, type EventType, eventText, type TimedEvent, timedEvent } from './event.ts';

/** Maximum characters of an unknown field's name, or of a wrong value, that an error message shows. */
const MAX_SHOWN = 100;
export const MAX_DATA_DEPTH = 64;
/** The fields of an event that a publisher may send. */
export const FIELDS: ReadonlySet<string> = new Set(['id', 'type', 'url', 'timestamp', 'data', 'at', 'delay']);
/** Maximum time from now until an event is due: a year. */
export const MAX_DELAY_MS = 31_536_000_000;
/** Minimum `at` of an event: a time in 1973. A lower number is probably in seconds. */
export const MIN_AT_MS = 100_000_000_000;
/**
 * Timestamps that are refused, because they are seconds: as milliseconds they lie between January and April 1970. The
 * Ruby Routemaster took them, so its clients are not refused.
 */
export const SECONDS = { min: 1e9, max: 1e10 };
// Matches an event's id: visible ASCII characters that JSON does not escape.
export const EVENT_ID = /^[!#-[\]-~]{1,64}$/;
// Matches the ids `.` and `..`, which a delayed event must not have: its id becomes a part of a URL's path, and
// `fetch`, for example, removes `.` and `..` from a path.
const DOTS = /^\.\.?$/;
const TYPES: ReadonlySet<unknown> = new Set(EVENT_TYPES);
const HTTPS_URL = /^https:\/\/[^\s\p{Cc}]+$/iu;

/** Thrown for an event that is not acceptable. `field` is undefined if the event as a whole is wrong. */
export class BadEvent extends Error {
  readonly field: string | undefined;

  constructor(field: string | undefined, message: string) {
    super(message);
    this.field = field;
  }
}

export type EventLimits = EventDialect & Pick<Config, 'maxEventDataBytes'>;

interface EventSource {
  topic: string;
  nowMs: number;
  limits: EventLimits;
}

/** A checked event: a TimedEvent if the event has `at` or `delay`, otherwise its JSON text. */
export type ReadEvent = string | TimedEvent;

/**
 * Checks a parsed event, and returns what is stored. Throws bad_event, which names the wrong `field` and, if `index` is
 * given, the index of the event.
 */
export function readEvent(value: unknown, index: number | undefined, source: EventSource): ReadEvent {
  try {
    return read(value, source);
  } catch (error) {
    throw error instanceof BadEvent ? asProblem(error, index) : error;
  }
}

export function asProblem({ field, message }: BadEvent, index: number | undefined): BusError {
  const where = index === undefined ? '' : `event ${index}: `;
  const members = { ...(index === undefined ? {} : { index }), ...(field === undefined ? {} : { field }) };
  return new BusError('bad_event', where + message, { members });
}

function read(value: unknown, { topic, nowMs, limits }: EventSource): ReadEvent {
  const { type, url, data } = readContent(value, limits, FIELDS);
  const { id: givenId, timestamp, at, delay } = value as Record<string, unknown>;
  const id = readId(givenId);
  const given = limits.loosensTimestamps ? readTimestamp(loosened(timestamp)) : readStrictly(timestamp);
  const event = { id, hasGivenId: id === givenId, topic, type, url, data, timestamp: given ?? nowMs };
  const due = readDue(at ?? undefined, delay ?? undefined);
  if (due && DOTS.test(id))
    throw new BadEvent('id', `id must not be ${id} with at or delay, because no URL could name the event`);
  return due ? timedEvent(event, given, due) : eventText(event);
}

/** The fields of an event that the bus cannot fill in, because only the publisher knows them. */
export type EventContent = Omit<Event, 'id' | 'topic' | 'timestamp'>;

/**
 * Returns the type, URL and data of a parsed event. Throws BadEvent if one of them is wrong. Also throws it for a field
 * that is not in `fields`, unless `limits` ignore unknown fields.
 */
export function readContent(value: unknown, limits: EventLimits, fields: ReadonlySet<string>): EventContent {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadEvent(undefined, 'an event is an object such as {"type":"create","url":"https://…"}');
  }
  if (!limits.ignoresUnknownFields) refuseUnknownFields(value, fields);
  const { type, url, data } = value as Record<string, unknown>;
  if (!TYPES.has(type))
    throw new BadEvent('type', `type must be one of ${EVENT_TYPES.join(', ')}${butIs(type)}`);
  return {
    type: type as EventType,
    url: readUrl(url, limits.maxUrlLength),
    data: readData(data, limits.maxEventDataBytes),
  };
}

function refuseUnknownFields(value: object, fields: ReadonlySet<string>): void {
  for (const name in value) {
    if (fields.has(name)) continue;
    const field = name.slice(0, MAX_SHOWN);
    throw new BadEvent(field, `unknown field ${JSON.stringify(field)}; use ${[...fields].join(', ')}`);
  }
}

/**
 * Returns the end of an error message about a value: `, not "created"`. A publisher that sends many events may log no
 * more than this message. Returns an empty text if there is no value.
 */
function butIs(value: unknown): string {
  if (value === undefined) return '';
  if (Array.isArray(value)) return ', not an array';
  if (typeof value === 'object' && value !== null && !JSON.isRawJSON(value)) return ', not an object';
  if (typeof value !== 'string' || value.length <= MAX_SHOWN) return `, not ${JSON.stringify(value)}`;
  return `, not ${JSON.stringify(`${value.slice(0, MAX_SHOWN)}…`)}`;
}

function readId(id: unknown): string {
  if (id === undefined || id === null) return eventId();
  if (typeof id === 'string' && EVENT_ID.test(id)) return id;
  throw new BadEvent('id', 'id must be a string of 1 to 64 visible ASCII characters other than " and \\');
}

function readUrl(url: unknown, maxLength: number): string {
  if (typeof url !== 'string') throw new BadEvent('url', `url must be a string${butIs(url)}`);
  if (url.length > maxLength) throw new BadEvent('url', `url must have at most ${maxLength} characters`);
  if (!HTTPS_URL.test(url) || !canParseUrl(url))
    throw new BadEvent('url', `url must be an https:// URL${butIs(url)}`);
  return url;
}

function readTimestamp(timestamp: unknown): number | undefined {
  if (timestamp === undefined || timestamp === null) return undefined;
  if (Number.isSafeInteger(timestamp)) return timestamp as number;
  throw new BadEvent(
    'timestamp',
    `timestamp must be a whole number of milliseconds since 1970${butIs(timestamp)}`,
  );
}

function readStrictly(value: unknown): number | undefined {
  const timestamp = readTimestamp(value);
  if (timestamp !== undefined && timestamp >= SECONDS.min && timestamp < SECONDS.max)
    throw new BadEvent(
      'timestamp',
      `timestamp ${timestamp} looks like seconds; send milliseconds since 1970`,
    );
  return timestamp;
}

/**
 * Returns the time at which an event is to be published, or undefined for an event that is published at once. Does not
 * check whether `at` is more than a year in the future: a script does, by Redis's clock.
 */
function readDue(at: unknown, delay: unknown): { at: number } | { delay: number } | undefined {
  if (at === undefined && delay === undefined) return undefined;
  if (at !== undefined && delay !== undefined)
    throw new BadEvent('delay', 'an event has either at or delay, not both');
  if (at !== undefined) {
    if (!Number.isSafeInteger(at))
      throw new BadEvent('at', `at must be a whole number of milliseconds since 1970${butIs(at)}`);
    if ((at as number) < MIN_AT_MS)
      throw new BadEvent('at', `at ${at} looks like seconds; send milliseconds since 1970`);
    return { at: at as number };
  }
  if (!Number.isInteger(delay) || (delay as number) < 0 || (delay as number) > MAX_DELAY_MS)
    throw new BadEvent(
      'delay',
      `delay must be a whole number of milliseconds from 0 to ${MAX_DELAY_MS}, a year${butIs(delay)}`,
    );
  return delay === 0 ? undefined : { delay: delay as number };
}

/**
 * Returns the timestamp that a client of the Ruby Routemaster means. Such a client may send `false` for no timestamp, a
 * number as text, or a number with a fraction, which is cut off.
 */
function loosened(timestamp: unknown): unknown {
  if (timestamp === false) return undefined;
  if (typeof timestamp === 'string' && /^-?\d{1,15}$/.test(timestamp)) return Number(timestamp);
  return typeof timestamp === 'number' ? Math.trunc(timestamp) : timestamp;
}

export function tooDeep(): BadEvent {
  return new BadEvent('data', `data must not be nested deeper than ${MAX_DATA_DEPTH} levels`);
}

function readData(data: unknown, maxBytes: number): string | undefined {
  if (data === undefined || data === null) return undefined;
  if (isDeeper(data, MAX_DATA_DEPTH)) throw tooDeep();
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
