import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { ERRORS } from '../src/errors.ts';
import { EVENT_TYPES } from '../src/publishing/event.ts';
import type { Input, Route } from '../src/routing/route.ts';
import { NAMED } from '../src/routing/schemas.ts';
import { root } from './processes/command.ts';
import { routeTable } from './route_table.ts';

type Schema = z.core.JSONSchema.BaseSchema;
type Fields = Record<string, Schema>;

const HEAD =
  '// Written by `npm run client` from the API of the bus. test/documents.test.ts fails if this file is out of date.';

/** Matches the `pattern` of a JSON Schema if the pattern permits only digits. */
const DIGITS = /^\^\\d(\{[\d,]+\}|[+*])?\$$/;

/** Maximum characters of a type that is repeated for each call that has it. A longer type is written once. */
const MAX_REPEATED = 120;

/** The property in which a JSON Schema has the name of its type, if it has one. */
const MARK = 'x-name';

const EVENT_WORDS = EVENT_TYPES.map(quoted).join(' | ');

/** The fields of the types that have a name. */
const named = new Map<string, string[]>();

/** Returns the files of packages/client/src/generated/ by name: types and errors that client and bus share. */
export function clientSources(): Record<string, string> {
  return { 'calls.ts': formatted(calls()), 'problems.ts': formatted(problems()) };
}

function calls(): string {
  const routes = routeTable().sort(byPath);
  for (const { answers } of routes)
    for (const each of Object.values(answers)) if (each) findNamed(schemaOf(each));
  const names = new Map<string, string>();
  const rows = routes.map((route) => {
    const name = quoted(`${route.method} ${route.path}`);
    const type = callType(route);
    const same = names.get(type);
    if (type.length > MAX_REPEATED) names.set(type, same ?? name);
    return `${name}: ${same === undefined ? type : `Calls[${same}]`};`;
  });
  return `${HEAD}

export type EventType = ${EVENT_WORDS};

${[...named].map(([name, fields]) => `export interface ${name} ${braced(fields)}`).join('\n\n')}

/** The calls of the HTTP API, with the types of their query, JSON body and answer; undefined where there is none. */
export interface Calls {
  ${rows.join('\n')}
}`;
}

function callType({ query, body, answers }: Route): string {
  const parts = {
    query: queryType(query),
    body: body ? typeOf(inputSchema(body)) : 'undefined',
    answer: [...new Set(Object.values(answers).map(answerType))].join(' | '),
  };
  return braced(Object.entries(parts).map(([name, type]) => `${name}: ${type};`));
}

function problems(): string {
  const entries = Object.entries(ERRORS).map(([code, { status, title }]) => ({ code, status, title }));
  const classes = entries.map(
    ({ code, status, title }) => `/** ${status}: ${title}. */
export class ${className(code)} extends KnownProblem<${quoted(code)}> {}`,
  );
  return `${HEAD}

import { KnownProblem } from '../problem.ts';

${classes.join('\n')}

/** The class of each error, by the code of its problem document. */
export const PROBLEMS = {
  ${entries.map(({ code }) => `${code}: ${className(code)},`).join('\n')}
} as const;`;
}

/** The name of the class of an error, such as BadEventError. */
function className(code: string): string {
  const words = code.split('_').map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`);
  return `${words.join('')}Error`;
}

function byPath(a: Route, b: Route): number {
  return a.path === b.path ? (a.method < b.method ? -1 : 1) : a.path < b.path ? -1 : 1;
}

function inputSchema({ schema }: Input<unknown>): Schema {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
}

/** Returns the TypeScript type of a query. A parameter of digits gets the type `number`. */
function queryType(query: Input<unknown> | undefined): string {
  const schema = query ? inputSchema(query) : {};
  if (Object.keys(schema.properties ?? {}).length === 0) return 'undefined';
  const properties = Object.entries(schema.properties as Fields).map(([name, field]) => [
    name,
    DIGITS.test(field.pattern ?? '') ? { type: 'number' } : field,
  ]);
  return typeOf({ ...schema, properties: Object.fromEntries(properties), additionalProperties: false });
}

function answerType(schema: z.ZodType | null): string {
  return schema ? typeOf(schemaOf(schema)) : 'undefined';
}

function schemaOf(schema: z.ZodType): Schema {
  return z.toJSONSchema(schema, {
    unrepresentable: 'any',
    override({ zodSchema, jsonSchema }) {
      const name = NAMED.get(zodSchema as unknown as z.ZodType)?.name;
      if (name !== undefined) (jsonSchema as Schema)[MARK] = name;
    },
  });
}

/** Adds the named types in a schema to `named`. */
function findNamed(schema: Schema): void {
  const { properties = {}, items, anyOf = [] } = schema;
  for (const each of [...Object.values(properties as Fields), items, ...anyOf])
    if (each) findNamed(each as Schema);
  if (typeof schema[MARK] === 'string') named.set(schema[MARK], fieldsOf(schema));
}

/** Returns the TypeScript type of the values that a JSON Schema describes. */
function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return quoted(schema.const);
  if (schema.enum) {
    const words = schema.enum.map(quoted).join(' | ');
    return words === EVENT_WORDS ? 'EventType' : words;
  }
  if (schema.anyOf) return unionOf(schema.anyOf as Schema[]);
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(' | ');
  switch (schema.type) {
    case 'object':
      return objectType(schema);
    case 'array':
      return `(${typeOf((schema.items ?? {}) as Schema)})[]`;
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    default:
      return 'unknown';
  }
}

/** Returns the type of an object: a named type if the object has all of its fields, together with the other fields. */
function objectType(schema: Schema): string {
  const fields = fieldsOf(schema);
  if (fields.length === 0) return 'Record<string, unknown>';
  const isItself = (name: string) => schema[MARK] === undefined || schema[MARK] === name;
  const hasAll = (known: readonly string[]) => known.every((field) => fields.includes(field));
  const [name, known = []] = [...named].find(([name, known]) => isItself(name) && hasAll(known)) ?? [];
  const others = fields.filter((field) => !known.includes(field));
  return [name, others.length > 0 && braced(others)].filter(Boolean).join(' & ');
}

function fieldsOf({ properties = {}, required = [], additionalProperties: others }: Schema): string[] {
  const fields = Object.entries(properties as Fields).map(([name, field]) =>
    required.includes(name) ? `${name}: ${typeOf(field)};` : `${name}?: ${typeOf(field)} | undefined;`,
  );
  if (typeof others === 'object') fields.push(`[name: string]: ${typeOf(others as Schema)};`);
  return fields;
}

function braced(fields: readonly string[]): string {
  return `{ ${fields.join(' ')} }`;
}

/** Returns a union type. Each object in it gets the fields of the others as undefined, so that all can be read. */
function unionOf(members: readonly Schema[]): string {
  const names = new Set(members.flatMap(({ properties = {} }) => Object.keys(properties)));
  const whole = members.map((member) => {
    if (member.type !== 'object') return typeOf(member);
    const missing = [...names].filter((name) => !(name in (member.properties ?? {})));
    const [type, others] = [typeOf(member), missing.map((name) => `${name}?: undefined;`)];
    if (type.endsWith('}')) return type.replace(/ \}$/, ` ${others.join(' ')} }`);
    return others.length === 0 ? type : `(${type} & ${braced(others)})`;
  });
  return [...new Set(whole)].join(' | ');
}

function quoted(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : JSON.stringify(value);
}

function formatted(source: string): string {
  const biome = join(root, 'node_modules', '.bin', 'biome');
  const args = ['format', '--stdin-file-path=packages/client/src/generated/source.ts'];
  return execFileSync(biome, args, { cwd: root, input: source, encoding: 'utf8' });
}

// `npm run client` runs this file, which writes the sources.
if (import.meta.main) {
  for (const [name, text] of Object.entries(clientSources()))
    writeFileSync(join(root, 'packages/client/src/generated', name), text);
}
