import type { JsonSchema, OpenApiDocument } from './openapi.ts';

/** A field of a body, such as `events.sent` or `history[].at`. */
export interface Field {
  name: string;
  type: string;
  required: boolean;
  description: string;
}

/**
 * Returns the fields of the object that a schema describes, and of the objects inside it, such as `events` and
 * `events.sent`. For a list, these are the fields of its items. For a schema with alternatives, these are the fields of
 * the first alternative that is an object.
 */
export function fieldsOf(schema: JsonSchema, document: OpenApiDocument, prefix = ''): Field[] {
  const { properties = {}, required = [] } = objectIn(schema, document) ?? {};
  return Object.entries(properties).flatMap(([name, each]) => {
    const inner = objectIn(each, document);
    const list = inner && isList(each) ? '[]' : '';
    const field = {
      name: prefix + name,
      type: typeText(each),
      required: required.includes(name),
      description: each.description ?? inner?.description ?? '',
    };
    return [field, ...(inner ? fieldsOf(inner, document, `${prefix}${name}${list}.`) : [])];
  });
}

function objectIn(schema: JsonSchema, document: OpenApiDocument): JsonSchema | undefined {
  const name = schema.$ref?.split('/').at(-1);
  if (name !== undefined) return objectIn(document.components.schemas[name] ?? {}, document);
  if (schema.properties) return schema;
  if (schema.items) return objectIn(schema.items, document);
  return schema.anyOf?.map((each) => objectIn(each, document)).find((each) => each !== undefined);
}

function isList({ type, anyOf }: JsonSchema): boolean {
  return type === 'array' || (anyOf ?? []).some(isList);
}

/** Says what a value may be, such as `integer 0 to 3600000 or null`. */
export function typeText(schema: JsonSchema): string {
  if (schema.$ref) return 'object';
  if (schema.anyOf) return [...new Set(schema.anyOf.map(typeText))].join(' or ');
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(', ');
  if (schema.type === undefined) return 'any JSON';
  if (Array.isArray(schema.type)) return schema.type.join(' or ');
  if (schema.type === 'array') return `list of ${schema.items ? typeText(schema.items) : 'any JSON'}`;
  const { type, minimum, maximum } = schema;
  return minimum === undefined || maximum === undefined ? type : `${type} ${minimum} to ${maximum}`;
}
