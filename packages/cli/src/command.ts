import { readFile, stat } from 'node:fs/promises';
import type { Bus } from './bus.ts';

export interface Option {
  short?: string;
  /** The word that stands for the value of the option in help texts, such as URL. Absent if the option has no value. */
  value?: string;
  help: string;
}

export interface Call {
  args: string[];
  options: Record<string, string | boolean | undefined>;
  /**
   * Returns an object that calls the bus of `--bus`. `timeoutMs` is the time limit of each call. Unless `isQuiet`, the
   * user is told if the first calls are repeated (`sayIfRepeated`).
   */
  connect(options?: { timeoutMs?: number; isQuiet?: boolean }): Bus;
  target(): Target;
  /** Prints `value` as JSON if the user gave `--json`. Otherwise prints `lines`. */
  print(value: unknown, lines: Iterable<string>): void;
  /** Prints a line on stderr that the user should see, but that is not part of the output. */
  note(line: string): void;
  streams: Streams;
  /** Returns a signal. After this call, Ctrl-C aborts the signal instead of ending the process. */
  interruption(): AbortSignal;
}

export interface Target {
  url: string;
  token: string;
  secret: string | undefined;
  /** Where the user gave the address of the bus, such as `--bus`. */
  from: string;
  /**
   * If the user gave NAME alone as the address, and `.rtmrc` has a bus of this name, returns `@NAME`, which the user
   * may have meant. Otherwise returns undefined.
   */
  meant(): string | undefined;
}

export interface Streams {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
}

export interface Command {
  /** One word, or two, such as `token add`. */
  name: string;
  /** The arguments as help shows them: one text for each way to call the command. Absent if it takes none. */
  args?: readonly string[];
  options?: Readonly<Record<string, Option>>;
  help: string;
  run(call: Call): Promise<void>;
}

/** Thrown if the command line is wrong. The exit status is then 1. */
export class UsageError extends Error {
  readonly code = 'bad_usage';
}

/** Thrown if a command fails. The user is shown the code and the message. The exit status is then 2. */
export class Failure extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export function textOption({ options }: Call, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** Returns an option as a number, or undefined if it is not given. Throws UsageError if it is not a whole number. */
export function numberOption(call: Call, name: string): number | undefined {
  const text = textOption(call, name);
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw new UsageError(`--${name} must be a whole number, not ${text}`);
  return Number(text);
}

/**
 * Resolves with the size of a file that the user named. Throws Failure with the path for a directory, because the error
 * of Node would not name the directory.
 */
export async function sizeOfGiven(path: string): Promise<number> {
  const found = await stat(path);
  if (found.isDirectory()) throw new Failure('EISDIR', `${path} is a directory; give a file`);
  return found.size;
}

/** Resolves with the bytes of a file that the user named. */
export async function readGiven(path: string): Promise<Buffer> {
  await sizeOfGiven(path);
  return readFile(path);
}

const SPAN = /^(\d+)([smhd])$/;
const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/**
 * Returns an option as a duration (ms), or undefined if it is not given. The option is a span, such as `30s` or `1h`,
 * or a whole number of milliseconds. Throws UsageError for anything else.
 */
export function durationOption(call: Call, name: string): number | undefined {
  const text = textOption(call, name);
  if (text === undefined) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) : spanMs(text);
  if (ms !== undefined) return ms;
  throw new UsageError(
    `--${name} must be a duration such as 30s, 15m, 2h or 7d, or milliseconds, not ${text}`,
  );
}

function spanMs(text: string): number | undefined {
  const [, count, unit = ''] = SPAN.exec(text) ?? [];
  return count === undefined ? undefined : Number(count) * (UNIT_MS[unit] ?? 0);
}

const DATE = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?Z)?$/;

/**
 * Returns an option as a time (ms since 1970), or undefined if it is not given. The option is a date, such as
 * `2026-07-01` or `2026-07-01T10:00Z`, or a span: `2h` means two hours ago. Throws UsageError for anything else.
 */
export function timeOption(call: Call, name: string): number | undefined {
  const text = textOption(call, name);
  if (text === undefined) return undefined;
  const agoMs = spanMs(text);
  const date = DATE.test(text) ? Date.parse(text) : Number.NaN;
  const ms = agoMs === undefined ? date : Date.now() - agoMs;
  if (ms >= 0) return ms;
  throw new UsageError(
    `--${name} must be a date such as 2026-07-01 or 2026-07-01T10:00Z, or how long ago, such as 2h, not ${text}`,
  );
}

/** Returns an option as a time (ms since 1970), or undefined if it is not given. Throws UsageError if it is no date. */
export function dateOption(call: Call, name: string): number | undefined {
  const text = textOption(call, name);
  if (text === undefined) return undefined;
  const ms = DATE.test(text) ? Date.parse(text) : Number.NaN;
  if (ms >= 0) return ms;
  throw new UsageError(`--${name} must be a date such as 2026-07-01 or 2026-07-01T10:00Z, not ${text}`);
}

/** Returns all entries of a listing, like Array.fromAsync, which Node 20 does not have. */
export async function collect<Entry>(listing: AsyncIterable<Entry>): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const entry of listing) entries.push(entry);
  return entries;
}

const LISTED = 100;
const MAX_PER_PAGE = 1000;

/**
 * Returns the first (newest) entries of a listing, as many as `--limit` says. Prints a note on stderr if the listing
 * has more entries.
 */
export async function newest<Entry>(
  call: Call,
  list: (page: { limit: number }) => AsyncIterable<Entry>,
): Promise<Entry[]> {
  const count = numberOption(call, 'limit') ?? LISTED;
  if (count === 0) throw new UsageError('--limit must be at least 1, not 0');
  const entries: Entry[] = [];
  for await (const entry of list({ limit: Math.min(count + 1, MAX_PER_PAGE) })) {
    if (entries.length === count) {
      call.note(`these are the newest ${count}; --limit shows more`);
      return entries;
    }
    entries.push(entry);
  }
  return entries;
}
