import fc from 'fast-check';
import { anyUrl } from '../../harness/any_url.ts';
import type { JsonSchema, OpenApiDocument, Operation, Parameter } from '../../src/openapi/openapi.ts';

/** A request as a client might send it. */
export interface WantedRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string | undefined;
  /** True if the document permits the request. */
  isValid: boolean;
}

/** Values that get a request far, by parameter: existing clients, topics and ids, and values that calls expect. */
export type Known = Record<string, readonly string[]>;

const anything = fc.jsonValue({ maxDepth: 3 });

/** Returns an arbitrary of values that a schema permits. */
function valid(schema: JsonSchema, document: OpenApiDocument): fc.Arbitrary<unknown> {
  const of = (each: JsonSchema) => valid(each, document);
  if (schema.$ref) return of(document.components.schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {});
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(of));
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if ('const' in schema) return fc.constant(schema.const);
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => of({ ...schema, type })));
  switch (schema.type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer': {
      const min = schema.minimum ?? -(2 ** 31);
      return fc.integer({ min, max: schema.maximum ?? Math.max(min, 2 ** 31 - 1) });
    }
    case 'number':
      return fc.double({ noNaN: true, noDefaultInfinity: true });
    case 'string':
      return text(schema);
    case 'array':
      return fc.array(of(schema.items ?? {}), {
        minLength: Number(schema.minItems ?? 0),
        maxLength: Math.min(Number(schema.maxItems ?? 5), 5),
      });
    case 'object':
      return record(schema, of);
    default:
      return anything;
  }
}

function text({ pattern, maxLength, minLength }: JsonSchema): fc.Arbitrary<string> {
  const lengths = { minLength: Number(minLength ?? 0), maxLength: Math.min(Number(maxLength ?? 20), 100) };
  if (pattern === undefined) return fc.string({ ...lengths, unit: 'grapheme' });
  const expression = new RegExp(pattern, 'u');
  if (pattern.startsWith('^https')) return anyUrl.filter((url) => expression.test(url));
  return fc.stringMatching(new RegExp(pattern));
}

function record(
  { properties = {}, required = [] }: JsonSchema,
  of: (schema: JsonSchema) => fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  const values = Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, of(each)]));
  return fc.record(values, { requiredKeys: required });
}

/** Returns an arbitrary of spoiled bodies: any text, or a body with a member too many, too few, or of another kind. */
function spoiled(schema: JsonSchema, document: OpenApiDocument): fc.Arbitrary<string> {
  const members = (value: unknown) => (typeof value === 'object' && value !== null ? value : {});
  const good = valid(schema, document);
  return fc.oneof(
    anything.map((value) => JSON.stringify(value)),
    fc
      .tuple(good, fc.string(), anything)
      .map(([value, name, more]) => JSON.stringify({ ...members(value), [name]: more })),
    fc.tuple(good, fc.nat(), anything).map(([value, at, other]) => {
      const names = Object.keys(members(value));
      const name = names[at % Math.max(1, names.length)] ?? '';
      return JSON.stringify({ ...members(value), [name]: other });
    }),
    fc.tuple(good, fc.nat()).map(([value, at]) => JSON.stringify(value).slice(0, at % 40)),
    fc.string({ unit: 'binary' }),
    fc.constantFrom('', 'null', '[]', '{}', '[[]]', '{"a":', '"\\ud800"', '{"__proto__":{"a":1}}', '1e999'),
  );
}

const STRANGE = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc.constantFrom(
    '',
    '.',
    '..',
    '%',
    '%00',
    '%2e%2e',
    '__proto__',
    'constructor',
    '-1',
    '1e2',
    '9'.repeat(30),
  ),
);

/** Returns an arbitrary of values for a parameter: one that is known, one that fits, or a strange one. */
function value(
  parameter: Parameter,
  document: OpenApiDocument,
  known: Known,
): fc.Arbitrary<[text: string, fits: boolean]> {
  const fitting = valid(parameter.schema, document).map((each): [string, boolean] => [String(each), true]);
  const given = known[parameter.name] ?? [];
  const strange = STRANGE.map((each): [string, boolean] => [each, false]);
  return fc.oneof(
    ...(given.length > 0
      ? [{ weight: 4, arbitrary: fc.constantFrom(...given).map((each): [string, boolean] => [each, true]) }]
      : []),
    { weight: 4, arbitrary: fitting },
    { weight: 1, arbitrary: strange },
  );
}

/** Returns an arbitrary of requests for one operation, most of them as the document wants them. */
export function requestsFor(
  method: string,
  template: string,
  operation: Operation,
  document: OpenApiDocument,
  known: Known,
): fc.Arbitrary<WantedRequest> {
  const parameters = operation.parameters ?? [];
  const given = parameters.map((each) => {
    const chosen = value(each, document, known);
    return each.required ? chosen : fc.option(chosen, { nil: undefined, freq: 2 });
  });
  const schema = operation.requestBody?.content['application/json']?.schema;
  const body = schema
    ? fc.oneof(
        {
          weight: 2,
          arbitrary: valid(schema, document).map((each) => ({ text: JSON.stringify(each), fits: true })),
        },
        { weight: 1, arbitrary: spoiled(schema, document).map((text) => ({ text, fits: false })) },
      )
    : fc.constant(undefined);
  return fc.tuple(fc.tuple(...given), body).map(([values, sent]) => {
    const query = new URLSearchParams();
    let path = template;
    const headers: Record<string, string> = {};
    for (const [index, parameter] of parameters.entries()) {
      const [text, fits] = values[index] ?? [];
      if (text === undefined) continue;
      if (parameter.in === 'path') path = path.replace(`{${parameter.name}}`, encoded(text));
      else if (parameter.in === 'query') query.append(parameter.name, text);
      else if (fits && /^[\x20-\x7e]*$/.test(text)) headers[parameter.name.toLowerCase()] = text;
    }
    const isValid = values.every((each) => each?.[1] !== false) && (sent?.fits ?? true);
    const target = query.size > 0 ? `${path}?${query}` : path;
    return { method: method.toUpperCase(), path: target, headers, body: sent?.text, isValid };
  });
}

/** Encodes characters that may not stand in a path; lone surrogates are replaced. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed()) || '%20';
}
