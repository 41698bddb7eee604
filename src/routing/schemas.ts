import { z } from 'zod';

/** Schemas with a name. The documentation of the API shows such a schema once, and refers to it by the name. */
export const NAMED = z.registry<{ name: string }>();

/** Returns the schema of a text that is one of these words. */
export const oneOf = <const Words extends readonly string[]>(words: Words) =>
  z.enum(words, `must be one of ${words.join(', ')}`);
