import type { Routemaster } from '@routemaster/client';

export interface Option {
  type: 'string' | 'boolean';
  short?: string;
  /** The placeholder of the value in help, such as URL. */
  value?: string;
  help: string;
}

/** The arguments and options of a command, and the ways to reach the bus and the user. */
export interface Call {
  args: string[];
  options: Record<string, string | boolean | undefined>;
  /** A client of the bus that `--bus` names. `timeoutMs`: how long a call may take. */
  connect(options?: { timeoutMs?: number }): Routemaster;
  /** The URL and the credentials that `connect` uses. */
  target(): Target;
  /** With `--json` prints the value as JSON, otherwise the lines. */
  print(value: unknown, lines: Iterable<string>): void;
  /** Prints a line on stderr that the user should see, but that is not part of the output. */
  note(line: string): void;
  streams: Streams;
  /** From this call on, Ctrl-C aborts the signal instead of ending the process. */
  interruption(): AbortSignal;
}

export interface Target {
  url: string;
  token: string;
  secret: string | undefined;
}

export interface Streams {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
  stderr: NodeJS.WriteStream;
}

export interface Command {
  /** One word, or two, such as `token add`. */
  name: string;
  /** The arguments as help shows them; several forms if it can be called in several ways. */
  args: readonly string[];
  options?: Readonly<Record<string, Option>>;
  help: string;
  run(call: Call): Promise<void>;
}

/** The command line is wrong: exit status 1. */
export class UsageError extends Error {}

/** A failure whose message tells the user everything, without a stack: exit status 2. */
export class Failure extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export function textOption({ options }: Call, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** Throws UsageError if the option is not a whole number. */
export function numberOption(call: Call, name: string): number | undefined {
  const text = textOption(call, name);
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) throw new UsageError(`--${name} is a whole number, not ${text}`);
  return Number(text);
}

/** Reads a listing to its end. (Node 20 has no Array.fromAsync.) */
export async function collect<Entry>(listing: AsyncIterable<Entry>): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const entry of listing) entries.push(entry);
  return entries;
}
