import { z } from 'zod';
import { NAMED } from '../routing/schemas.ts';
import type { JsonSchema } from './openapi.ts';

/**
 * A temporary member with the name of a schema, such as `"x-name": "Delivery"`. It is removed when the schema moves to
 * `components`.
 */
const X_NAME = 'x-name';

/**
 * The control characters, in a form that the regular expressions of every language understand. `\p{Cc}`, for example,
 * needs the flag `u` in JavaScript.
 */
const CONTROL_CHARACTERS = '\\x00-\\x1f\\x7f-\\x9f';

/** Makes JSON Schemas from schemas of zod. Named schemas are collected in `components`. */
export class Schemas {
  readonly components: Record<string, JsonSchema> = {};

  /** Returns the JSON Schema of what a caller may send. */
  input(schema: z.ZodType): JsonSchema {
    return this.#make(schema, 'input');
  }

  /** Returns the JSON Schema of an answer. It permits unknown members too, because later releases may add some. */
  output(schema: z.ZodType): JsonSchema {
    return this.#make(schema, 'output');
  }

  #make(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    const made = z.toJSONSchema(schema, {
      io,
      // zod cannot describe the rules of input that a function of the bus checks. With `any`, the JSON Schema permits
      // anything there, unless the `meta` of the zod schema gives a type.
      unrepresentable: 'any',
      override: ({ zodSchema, jsonSchema }) => {
        const name = NAMED.get(zodSchema as unknown as z.ZodType)?.name;
        if (name !== undefined) (jsonSchema as JsonSchema)[X_NAME] = name;
      },
    });
    const { $schema: _, ...rest } = made as JsonSchema;
    return this.#tidied(rest, io === 'output');
  }

  /**
   * Returns a schema of zod without parts that say nothing to a reader, such as the limits of JavaScript's integers.
   * Moves a named schema to `components`, and puts a reference in its place.
   */
  #tidied(schema: JsonSchema, isOutput: boolean): JsonSchema {
    const tidy: JsonSchema = {};
    for (const [key, value] of Object.entries(schema)) {
      if (key === X_NAME || key === 'readOnly' || key === 'propertyNames') continue;
      if (key === 'minimum' && value === Number.MIN_SAFE_INTEGER) continue;
      if (key === 'maximum' && value === Number.MAX_SAFE_INTEGER) continue;
      if (key === 'additionalProperties' && value === false && isOutput) continue;
      tidy[key] = this.#tidiedPart(key, value, isOutput);
    }
    const name = schema[X_NAME];
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
    if (key === 'pattern') return String(value).replaceAll('\\p{Cc}', CONTROL_CHARACTERS);
    return value;
  }
}
