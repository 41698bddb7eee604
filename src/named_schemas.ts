import { z } from 'zod';

/** Names of schemas. The documentation of the API shows a named schema once, and refers to it by its name. */
export const NAMED = z.registry<{ name: string }>();
