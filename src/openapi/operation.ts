import { http } from '../node_http.ts';
import type { Input, Route } from '../routing/route.ts';
import { BID, SHOP } from './examples.ts';
import type { Schemas } from './json_schema.ts';
import type { JsonSchema, Operation, Parameter, Response, RouteText } from './openapi.ts';
import type { ProblemResponses } from './problems.ts';
import { CHAPTERS } from './texts.ts';

const NDJSON = 'application/x-ndjson';

const IN_PATH: Record<string, string> = {
  token: SHOP,
  id: BID,
};

const LINK = { description: 'Leads to the next page, if there is one.', schema: { type: 'string' } };

/** Returns a path as OpenAPI writes it: `/topics/{name}` for `/topics/:name`. */
export function templateOf(path: string): string {
  return path.replaceAll(/:(\w+)/g, '{$1}');
}

/** The parts of the document that several routes share. */
export interface Components {
  schemas: Schemas;
  problems: ProblemResponses;
}

/**
 * Returns the description of a route. Some routes are aliases: `POST /subscriber` does the same as `POST
 * /subscription`. For an alias, `first` is the route with the main name. For any other route, `first` is the same as
 * `route`. Throws if CHAPTERS has no text for `first`.
 */
export function operationOf(route: Route, first: Route, { schemas, problems }: Components): Operation {
  const call = `${first.method} ${first.path}`;
  const chapter = CHAPTERS.find(({ texts }) => texts[call]);
  const text = chapter?.texts[call];
  if (!text) throw new Error(`src/openapi/texts.ts says nothing about ${call}`);
  const same = first !== route && templateOf(call);
  const other = same && `Another name for \`${same}\`.`;
  const prose = [other, text.description].filter(Boolean).join(' ');
  const parameters = parametersOf(route, text, schemas);
  const body = bodyOf(route, text, schemas);
  return {
    operationId: operationId(route),
    tags: [chapter.name],
    summary: text.summary,
    ...(prose && { description: prose }),
    security: route.roles.length > 0 ? [{ basic: [] }, { digest: [] }] : [],
    'x-roles': route.roles,
    ...(same && { 'x-alias-of': same }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: body }),
    responses: {
      ...responsesOf(route, text, schemas),
      ...problems.of(route),
    },
  };
}

function operationId({ method, path }: Route): string {
  const words = `${method.toLowerCase()}${path}`.split(/\W+/).filter((word) => word !== '');
  return words.map((word, index) => (index === 0 ? word : word[0]?.toUpperCase() + word.slice(1))).join('');
}

function exampleIn(path: string, name: string): string | undefined {
  if (name !== 'name') return IN_PATH[name];
  if (path.startsWith('/joins/')) return 'order';
  return path.startsWith('/triggers/') ? 'daily_report' : 'products';
}

function parametersOf({ path: at, params, query }: Route, text: RouteText, schemas: Schemas): Parameter[] {
  const path = fieldsOf(params, schemas).map(([name, schema]): Parameter => {
    return { ...parameter(name, 'path', schema, true), example: exampleIn(at, name) };
  });
  const read = query ? (schemas.output(query.schema).properties ?? {}) : {};
  const asked = fieldsOf(query, schemas).map(([name, given]) => {
    // Every value in a query is text, so the input schema calls even a number a string. The output schema (`read`) has
    // the type to which the bus converts the text. If that is a number, the document calls the parameter an integer.
    const isNumber = ['number', 'integer'].includes(String(read[name]?.type));
    return parameter(name, 'query', isNumber ? { ...read[name], type: 'integer' } : given, false);
  });
  return [...path, ...asked, ...(text.parameters ?? [])];
}

function fieldsOf(input: Input<unknown> | undefined, schemas: Schemas): [string, JsonSchema][] {
  return input ? Object.entries(schemas.input(input.schema).properties ?? {}) : [];
}

function parameter(
  name: string,
  where: Parameter['in'],
  { description, ...schema }: JsonSchema,
  required: boolean,
): Parameter {
  return { name, in: where, required, ...(description && { description }), schema };
}

function bodyOf({ body, textSchema }: Route, text: RouteText, schemas: Schemas): Operation['requestBody'] {
  if (textSchema) {
    const content = { schema: schemas.input(textSchema), example: text.body };
    const lines = {
      schema: { type: 'string', description: 'One event a line.' },
      example: JSON.stringify(text.body),
    };
    return { required: true, content: { 'application/json': content, [NDJSON]: lines } };
  }
  if (!body) return undefined;
  const { default: _, ...schema } = schemas.input(body.schema);
  const required = !body.schema.safeParse(undefined).success;
  return { required, content: { 'application/json': { schema, example: text.body } } };
}

function responsesOf(route: Route, text: RouteText, schemas: Schemas): Record<string, Response> {
  const isPaged = fieldsOf(route.query, schemas).some(([name]) => name === 'limit');
  const responses = Object.entries(route.answers).map(([status, schema]): [string, Response] => {
    const headers = { ...(isPaged && schema && { Link: LINK }), ...text.headers };
    const description = schema
      ? (http.STATUS_CODES[status] ?? status)
      : `${http.STATUS_CODES[status]}; there is no body.`;
    const type = text.type ?? 'application/json';
    return [
      status,
      {
        description,
        ...(Object.keys(headers).length > 0 && { headers }),
        ...(schema && { content: { [type]: { schema: schemas.output(schema), example: text.answer } } }),
      },
    ];
  });
  return Object.fromEntries(responses);
}
