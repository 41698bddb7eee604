import { z } from 'zod';
import { NAMED } from '../named_schemas.ts';
import type { JsonSchema } from './openapi.ts';

/** Marks a named schema until it has been moved to the components. */
const MARK = 'x-name';

/** Makes JSON Schemas from zod's schemas, and collects those with a name in `components`. */
export class Schemas {
  readonly components: Record<string, JsonSchema> = {};

  /** Returns the JSON Schema of what a call may send. */
  input(schema: z.ZodType): JsonSchema {
    return this.#make(schema, 'input');
  }

  /** Returns the JSON Schema of an answer. Callers must ignore members that it does not name: more may come. */
  output(schema: z.ZodType): JsonSchema {
    return this.#make(schema, 'output');
  }

  #make(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    const made = z.toJSONSchema(schema, {
      io,
      // Code checks such input, and zod cannot describe it. Its schema permits anything, unless `meta` has a type.
      unrepresentable: 'any',
      override: ({ zodSchema, jsonSchema }) => {
        const name = NAMED.get(zodSchema as unknown as z.ZodType)?.name;
        if (name !== undefined) (jsonSchema as JsonSchema)[MARK] = name;
      },
    });
    const { $schema: _, ...rest } = made as JsonSchema;
    return this.#tidied(rest, io === 'output');
  }

  /** Leaves out what zod writes and nobody needs to read, and replaces named schemas by references. */
  #tidied(schema: JsonSchema, isOutput: boolean): JsonSchema {
    const tidy: JsonSchema = {};
    for (const [key, value] of Object.entries(schema)) {
      if (key === MARK || key === 'readOnly' || key === 'propertyNames') continue;
      if (key === 'minimum' && value === Number.MIN_SAFE_INTEGER) continue;
      if (key === 'maximum' && value === Number.MAX_SAFE_INTEGER) continue;
      if (key === 'additionalProperties' && value === false && isOutput) continue;
      tidy[key] = this.#tidiedPart(key, value, isOutput);
    }
    const name = schema[MARK];
    if (typeof name !== 'string') return tidy;
    this.components[name] = tidy;
    return { $ref: `#/components/schemas/${name}` };
  }

  #tidiedPart(key: string, value: unknown, isOutput: boolean): unknown {
    const tidied = (each: JsonSchema) => this.#tidied(each, isOutput);
    if (key === 'properties')
      return Object.fromEntries(
        Object.entries(value as Record<string, JsonSchema>).map(([name, each]) => [name, tidied(each)]),
      );
    if (key === 'anyOf' || key === 'allOf' || key === 'oneOf') return (value as JsonSchema[]).map(tidied);
    if (key === 'items' || (key === 'additionalProperties' && typeof value === 'object'))
      return tidied(value as JsonSchema);
    return value;
  }
}
