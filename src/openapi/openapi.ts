import type { Role } from '../routing/caller.ts';

/** A JSON Schema (draft 2020-12), as OpenAPI 3.1 uses it. */
export interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  description?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  [key: string]: unknown;
}

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  description?: string;
  schema: JsonSchema;
  example?: unknown;
}

export interface Content {
  schema: JsonSchema;
  example?: unknown;
  examples?: Record<string, unknown>;
}

export interface Response {
  $ref?: string;
  description?: string;
  headers?: Record<string, { description?: string; schema: JsonSchema }>;
  content?: Record<string, Content>;
}

export interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  security: Record<string, string[]>[];
  /** The roles that may make the call. Anybody may if the list is empty. */
  'x-roles': readonly Role[];
  /** The main name of the call, such as `POST /subscription`, if this operation is another name of the call. */
  'x-alias-of'?: string;
  parameters?: Parameter[];
  requestBody?: { required: boolean; content: Record<string, Content> };
  responses: Record<string, Response>;
}

export interface OpenApiDocument {
  openapi: string;
  info: { title: string; version: string; description: string; license: Record<string, string> };
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks: { delivery: { post: Operation } };
  components: {
    schemas: Record<string, JsonSchema>;
    responses: Record<string, Response>;
    examples: Record<string, unknown>;
    securitySchemes: Record<string, unknown>;
  };
}

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
