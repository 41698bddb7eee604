import { z } from 'zod';

/** Schemas that have a name. The documentation of the API shows such a schema once, and refers to it by the name. */
export const NAMED = z.registry<{ name: string }>();
