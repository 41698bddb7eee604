import { ERRORS, type ErrorCode } from '../errors.ts';
import type { Route } from '../routing/route.ts';
import type { JsonSchema, Response } from './openapi.ts';

/** Codes of the errors that a request to any route can cause. */
const ANY: readonly ErrorCode[] = [
  'bad_header',
  'forbidden',
  'request_timeout',
  'headers_too_large',
  'internal',
  'unsupported_transfer_coding',
];
const BUT_HEALTH_CHECKS: readonly ErrorCode[] = ['rate_limited', 'storage_unavailable'];
const WITH_CREDENTIALS: readonly ErrorCode[] = [
  'unauthenticated',
  'too_many_failures',
  'too_many_nonces',
  'storage_full',
];
const WITH_BODY: readonly ErrorCode[] = ['bad_body', 'body_too_large', 'unsupported_encoding', 'overloaded'];

function codesOf({ isHealthCheck, roles, query, body, takesText, errors = [] }: Route): ErrorCode[] {
  const codes = new Set<ErrorCode>([
    ...errors,
    ...ANY,
    ...(isHealthCheck ? [] : BUT_HEALTH_CHECKS),
    ...(roles.length > 0 ? WITH_CREDENTIALS : []),
    ...(query ? (['bad_query'] as const) : []),
    ...(body || takesText ? WITH_BODY : []),
  ]);
  // Sorts the codes as in ERRORS, which is sorted by HTTP status.
  return (Object.keys(ERRORS) as ErrorCode[]).filter((code) => codes.has(code));
}

export const PROBLEM: JsonSchema = {
  type: 'object',
  description: 'An error (RFC 9457). `code` never changes its meaning.',
  properties: {
    type: { type: 'string', const: 'about:blank' },
    title: { type: 'string', description: 'What is wrong, in general.' },
    status: { type: 'integer', description: 'The HTTP status.' },
    code: { type: 'string', description: 'The kind of error.', enum: Object.keys(ERRORS) },
    detail: { type: 'string', description: 'What to change.' },
    field: { type: 'string', description: 'Which field, parameter or header is wrong.' },
    index: { type: 'integer', description: 'Which event of an array is wrong, from 0.' },
  },
  required: ['type', 'title', 'status', 'code', 'detail'],
};

const RETRY_AFTER = {
  'Retry-After': { description: 'After how many seconds to try again.', schema: { type: 'integer' } },
};
const HEADERS: Record<number, Response['headers']> = {
  401: {
    'WWW-Authenticate': { description: 'The challenges of Digest and Basic.', schema: { type: 'string' } },
  },
  429: RETRY_AFTER,
  503: RETRY_AFTER,
};

/** Describes the error answers of routes. Answers with the same codes are described once, in `components`. */
export class ProblemResponses {
  /** The error answers by name. A name is all error codes that such an answer can have, joined by dots. */
  readonly components: Record<string, Response> = {};
  /** For each error code that a route can answer, an example of the answer. */
  readonly examples: Record<string, unknown> = {};

  /** Returns the error answers of a route, by status. */
  of(route: Route): Record<string, Response> {
    const byStatus = Map.groupBy(codesOf(route), (code) => ERRORS[code].status);
    return Object.fromEntries(
      [...byStatus].map(([status, codes]) => [status, this.#reference(status, codes)]),
    );
  }

  #reference(status: number, codes: ErrorCode[]): Response {
    const name = codes.join('.');
    for (const code of codes) this.examples[code] ??= exampleOf(code);
    this.components[name] ??= responseOf(status, codes);
    return { $ref: `#/components/responses/${name}` };
  }
}

/** Returns the error codes of an answer that `ProblemResponses` has made: they are the parts of the answer's name. */
export function codesIn({ $ref = '' }: Response): string[] {
  return $ref.split('/').at(-1)?.split('.') ?? [];
}

function responseOf(status: number, codes: ErrorCode[]): Response {
  return {
    description: codes.map((code) => `\`${code}\`: ${ERRORS[code].title}.`).join(' '),
    ...(HEADERS[status] && { headers: HEADERS[status] }),
    content: {
      'application/problem+json': {
        schema: {
          allOf: [{ $ref: '#/components/schemas/Problem' }],
          properties: { code: { enum: codes }, status: { const: status } },
        },
        examples: Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  };
}

function exampleOf(code: ErrorCode) {
  const { title, status } = ERRORS[code];
  return { summary: title, value: { type: 'about:blank', title, status, code, detail: `${title}.` } };
}
