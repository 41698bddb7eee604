import type { Parameter, Response } from './openapi.ts';

/** The chapters of the documentation. */
export const CHAPTERS = {
  Publishing: 'Events enter the bus.',
  Topics: 'What there is to subscribe to.',
  Subscribing: 'Who gets which events, where, and how.',
  Joins: 'Events that come when several topics have spoken.',
  Triggers: 'Events that come on a schedule.',
  'Dead letters': 'Batches that are not tried any more, kept whole.',
  Clients: 'Who may call, and with which limits.',
  Records: 'What was done, and what is queued.',
  Watching: 'Whether the bus works, and how it does.',
  Reference: 'This documentation.',
} as const;

/** The text and the examples of a route in the documentation. The rest is made from the schemas of the route. */
export interface RouteText {
  chapter: keyof typeof CHAPTERS;
  summary: string;
  description?: string;
  /** An example of the body of a call. */
  body?: unknown;
  /** An example of the body of the answer. */
  answer?: unknown;
  /** Headers that callers may send. */
  parameters?: Parameter[];
  /** Headers of a successful answer. */
  headers?: Response['headers'];
  /** The content type of an answer that is not JSON. */
  type?: 'text/plain' | 'text/html';
}
