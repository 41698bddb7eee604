import type { Parameter, Response } from './openapi.ts';

/**
 * The text and the examples of a route in the documentation. `body` and `answer` are example bodies. The rest of the
 * documentation is made from the schemas of the route.
 */
export interface RouteText {
  summary: string;
  description?: string;
  body?: unknown;
  answer?: unknown;
  /** Headers that callers may send. */
  parameters?: Parameter[];
  /** Headers of a successful answer. */
  headers?: Response['headers'];
  /** The content type of an answer that is not JSON. */
  type?: 'text/plain' | 'text/html';
}

/** What the OpenAPI document says about each route. The keys are method and path, such as `GET /topics`. */
export type Texts = Record<string, RouteText>;
