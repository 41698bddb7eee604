import { z } from 'zod';

/** Schemas that stand under a name of their own in the documentation of the API, which then refers to them. */
export const NAMED = z.registry<{ name: string }>();
