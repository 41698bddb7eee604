import { z } from 'zod';

/** Schemas with a name. The OpenAPI document shows such a schema once, and refers to it by the name. */
export const NAMED = z.registry<{ name: string }>();

/** Returns the schema of a text that is one of these words. */
export const oneOf = <const Words extends readonly string[]>(words: Words) =>
  z.enum(words, `must be one of ${words.join(', ')}`);

const wholeRule = (min: number, max: number) => `must be a whole number from ${min} to ${max}`;

/** Returns the schema of a whole number in JSON. */
export const wholeNumber = (min: number, max: number) => {
  const rule = wholeRule(min, max);
  return z.int(rule).min(min, rule).max(max, rule);
};

/** Returns the schema of a whole number from 1 to `max` in a query. */
export const countUpTo = (max: number) => {
  const rule = wholeRule(1, max);
  return z
    .string(rule)
    .regex(new RegExp(`^\\d{1,${String(max).length}}$`), rule)
    .transform(Number)
    .pipe(z.number().min(1, rule).max(max, rule));
};
