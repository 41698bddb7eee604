/** An argument of a script, in the form in which it is sent to Redis: text (UTF-8), a number, or bytes. */
export type ScriptArgument = string | number | Buffer;

export type ScriptReply = Buffer | number | null | ScriptReply[];

/**
 * Describes the type of a value that a script gets or returns. A string describes a single value:
 *
 * - `text`, `bytes`, `number`, `flag` (a boolean);
 * - `digits`: a number that Lua gets as text. The script only compares or stores it, so it need not be converted;
 * - `ok|not_found`: one of these words, which bars separate;
 * - `text?`, `number?` and so on: the value may be missing (undefined here, nil in Lua). An argument that is an empty
 *   text counts as missing.
 *
 * `[shape]` describes a list of values of that shape. `{ field: shape }` describes an object with such fields, which is
 * a table in Lua. Field names are camelCase here and snake_case in Lua.
 */
export type Shape = string | readonly [Shape] | RecordShape;
export interface RecordShape {
  readonly [field: string]: Shape;
}

export interface Contract {
  readonly arguments: RecordShape;
  readonly reply: Shape;
}

type Words<S> = S extends `${infer Word}|${infer Rest}` ? Word | Words<Rest> : S;

type Single<S, Bytes> = S extends `${infer Kind}?`
  ? Single<Kind, Bytes> | undefined
  : S extends 'number' | 'digits'
    ? number
    : S extends 'flag'
      ? boolean
      : S extends 'bytes'
        ? Bytes
        : S extends 'text'
          ? string
          : Words<S>;

type OptionalField<S> = { [K in keyof S]: S[K] extends `${string}?` ? K : never }[keyof S];

/** The TypeScript type of a value of this shape that is sent to a script. */
export type Sent<S> = S extends string
  ? Single<S, string | Buffer>
  : S extends readonly [infer Item]
    ? readonly Sent<Item>[]
    : { [K in Exclude<keyof S, OptionalField<S>>]: Sent<S[K]> } & {
        [K in OptionalField<S>]?: Sent<S[K]>;
      };

/** The TypeScript type of a value of this shape that a script returns. */
export type Received<S> = S extends string
  ? Single<S, Buffer>
  : S extends readonly [infer Item]
    ? Received<Item>[]
    : { -readonly [K in keyof S]: Received<S[K]> };

export const isList = (shape: Shape): shape is readonly [Shape] => Array.isArray(shape);
export const isRecord = (shape: Shape): shape is RecordShape => typeof shape === 'object' && !isList(shape);

/** Returns an object's fields in the order in which Redis gets them: single values first, then lists. */
export function fieldsInOrder(record: RecordShape): [name: string, shape: Shape][] {
  const fields = Object.entries(record);
  return [
    ...fields.filter(([, shape]) => typeof shape === 'string'),
    ...fields.filter(([, shape]) => typeof shape !== 'string'),
  ];
}

type Write = (value: never, into: ScriptArgument[]) => void;

/**
 * Returns a function that appends a value to the arguments of a script. A list is written as its length, followed by
 * its items.
 */
export function writerOf(shape: Shape): Write {
  if (isList(shape)) return writeList(writerOf(shape[0]));
  if (isRecord(shape)) {
    const fields = fieldsInOrder(shape).map(([name, each]) => [name, writerOf(each)] as const);
    return (value: Record<string, never>, into) => {
      for (const [name, write] of fields) write(value[name] as never, into);
    };
  }
  if (shape === 'flag') return (value: boolean, into) => into.push(value ? 1 : 0);
  return (value: ScriptArgument | undefined, into) => into.push(value ?? '');
}

function writeList(write: Write): Write {
  return (items: readonly never[], into) => {
    into.push(items.length);
    for (const item of items) write(item, into);
  };
}

/** Returns a function that reads a reply of this shape. It throws a TypeError if the reply has another shape. */
export function readerOf(shape: Shape): (reply: ScriptReply) => unknown {
  if (isList(shape)) {
    const read = readerOf(shape[0]);
    return (reply) => listOf(reply).map(read);
  }
  if (isRecord(shape)) {
    const fields = Object.entries(shape).map(([name, each]) => [name, readerOf(each)] as const);
    return (reply) => {
      const values = listOf(reply);
      return Object.fromEntries(fields.map(([name, read], index) => [name, read(values[index] ?? null)]));
    };
  }
  if (shape.endsWith('?')) {
    const read = readerOf(shape.slice(0, -1));
    return (reply) => (reply === null ? undefined : read(reply));
  }
  return readSingle(shape);
}

function readSingle(kind: string): (reply: ScriptReply) => unknown {
  if (kind === 'number') return (reply) => numberOf(reply);
  if (kind === 'flag') return (reply) => numberOf(reply) === 1;
  if (kind === 'bytes') return bytesOf;
  if (kind === 'text') return (reply) => bytesOf(reply).toString();
  const words = kind.split('|');
  return (reply) => {
    const word = bytesOf(reply).toString();
    if (!words.includes(word)) throw new TypeError(`a script answered ${word} in place of ${kind}`);
    return word;
  };
}

function listOf(reply: ScriptReply): ScriptReply[] {
  if (Array.isArray(reply)) return reply;
  throw new TypeError('a script did not answer a list');
}

function numberOf(reply: ScriptReply): number {
  const number = Buffer.isBuffer(reply) ? Number(reply.toString()) : reply;
  if (typeof number === 'number' && !Number.isNaN(number)) return number;
  throw new TypeError('a script did not answer a number');
}

function bytesOf(reply: ScriptReply): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  if (typeof reply === 'number') return Buffer.from(String(reply));
  throw new TypeError('a script did not answer text');
}
