import { type Contract, fieldsInOrder, isList, isRecord, type RecordShape, type Shape } from './contract.ts';

/** Returns the source of a Lua function that reads from ARGV what `writerOf` (contract.ts) has written. */
export function luaArguments({ arguments: shape }: Contract): string {
  return [
    'function(argv)',
    'local at, args = 1, nil',
    ...readRecord(shape, 'args'),
    'return args',
    'end',
  ].join('\n');
}

/** Returns the source of a Lua function that converts the result of a script to the form that `readerOf` reads. */
export function luaReply({ reply }: Contract): string {
  return `function(result) return ${laidOut(reply, 'result')} end`;
}

/** True if a Lua value of this shape goes into the reply unchanged. Other values must be converted by `laidOut`. */
function isPlain(shape: Shape): boolean {
  return isList(shape)
    ? isPlain(shape[0])
    : typeof shape === 'string' && shape !== 'flag' && !shape.endsWith('?');
}

/** Returns a Lua expression that converts `value`, which is a Lua expression too, to its form in the reply. */
function laidOut(shape: Shape, value: string): string {
  if (isPlain(shape)) return value;
  if (isList(shape)) return `map(${value}, function(item) return ${laidOut(shape[0], 'item')} end)`;
  if (isRecord(shape)) {
    const fields = Object.entries(shape).map(([name, each]) => laidOut(each, `${value}.${snakeCase(name)}`));
    return `{ ${fields.join(', ')} }`;
  }
  // Redis ends a list in a reply at the first nil, so a missing value is sent as false. It arrives as null.
  return shape === 'flag' ? `(${value} and 1 or 0)` : `(${value} or false)`;
}

/**
 * Returns lines of Lua that read an object from ARGV into the table `target`. They also move the index `at` to the
 * argument after the object.
 */
function readRecord(shape: RecordShape, target: string): string[] {
  const fields = fieldsInOrder(shape);
  const singles = fields.filter(([, each]) => typeof each === 'string');
  const values = singles.map(
    ([name, each], index) => `${snakeCase(name)} = ${converted(each as string, `argv[at + ${index}]`)}`,
  );
  // The table constructor sets all fields at once. A field that is added later would cost Redis half a microsecond. A
  // list is false until it is read.
  const lists = fields.slice(singles.length).map(([name]) => `${snakeCase(name)} = false`);
  return [
    `${target} = { ${[...values, ...lists].join(', ')} }`,
    `at = at + ${singles.length}`,
    ...fields.slice(singles.length).flatMap(([name, each]) => readList(each, `${target}.${snakeCase(name)}`)),
  ];
}

function readList(shape: Shape, target: string): string[] {
  if (!isList(shape)) throw new Error('a record of arguments holds single values and lists');
  const [item] = shape;
  if (!isRecord(item) && converted(item as string, 'item') === 'item')
    return [`${target} = part(argv, at + 1, at + argv[at])`, 'at = at + 1 + argv[at]'];
  return [
    'do',
    `local list, length = {}, ${converted('number', 'argv[at]')}`,
    'at = at + 1',
    'for i = 1, length do',
    'local item',
    ...(isRecord(item)
      ? readRecord(item, 'item')
      : [`item = ${converted(item as string, 'argv[at]')}`, 'at = at + 1']),
    'list[i] = item',
    'end',
    `${target} = list`,
    'end',
  ];
}

function converted(kind: string, argument: string): string {
  // Adding 0 converts a text to a number in half the time of `tonumber`, but fails on an empty text. A `number?` that
  // is missing is an empty text. So only `number?` uses `tonumber`.
  if (kind === 'number') return `(${argument} + 0)`;
  if (kind === 'number?') return `tonumber(${argument})`;
  if (kind === 'flag') return `${argument} == '1'`;
  return kind.endsWith('?') ? `${argument} ~= '' and ${argument} or nil` : argument;
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
