import { z } from 'zod';
import { NAMED } from '../routing/schemas.ts';
import type { JsonSchema } from './openapi.ts';

/**
 * While the document is being made, this member of a schema has the schema's name, such as `"x-name": "Delivery"`. In
 * the finished document, the schema is in `components` under this name, without this member.
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

  /**
   * Returns the JSON Schema of an answer. The schema permits unknown members too, because later releases may add some.
   */
  output(schema: z.ZodType): JsonSchema {
    return this.#make(schema, 'output');
  }

  #make(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    const made = z.toJSONSchema(schema, {
      io,
      // JSON Schema cannot express some schemas of zod, such as one that checks a value by a function. By default, zod
      // throws for such a schema. With `any`, zod makes a JSON Schema that permits any value.
      unrepresentable: 'any',
      override: ({ zodSchema, jsonSchema }) => {
        const name = NAMED.get(zodSchema as unknown as z.ZodType)?.name;
        if (name !== undefined) (jsonSchema as JsonSchema)[X_NAME] = name;
      },
    });
    return JSON.parse(JSON.stringify(made), (key, value) => this.#tidied(key, value, io === 'output'));
  }

  /**
   * Returns the value that the document shows for a member of a schema. Returns undefined for a member that tells
   * readers nothing, such as a maximum that is only JavaScript's largest integer. Moves a named schema to `components`,
   * and returns a reference to it.
   */
  #tidied(key: string, value: unknown, isOutput: boolean): unknown {
    if (key === '$schema' || key === 'readOnly' || key === 'propertyNames') return undefined;
    if (value === Number.MIN_SAFE_INTEGER || value === Number.MAX_SAFE_INTEGER) return undefined;
    if (key === 'additionalProperties' && value === false && isOutput) return undefined;
    if (key === 'pattern' && typeof value === 'string')
      return value.replaceAll('\\p{Cc}', CONTROL_CHARACTERS);
    const name = (value as JsonSchema | null)?.[X_NAME];
    if (typeof name !== 'string') return value;
    const { [X_NAME]: _, ...schema } = value as JsonSchema;
    this.components[name] = schema;
    return { $ref: `#/components/schemas/${name}` };
  }
}
