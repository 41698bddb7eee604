import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import { BusError, ERRORS, type ErrorCode } from '../errors.ts';
import type { Log } from '../log.ts';

/** The problem document of an error (RFC 9457). */
export function problem(error: BusError): string {
  const { status, title } = ERRORS[error.code];
  return JSON.stringify({
    type: 'about:blank',
    title,
    status,
    code: error.code,
    detail: error.message,
    ...error.members,
  });
}

/** Answers every error that a handler throws. What is not a BusError is our fault: logged, and told to nobody. */
export function answerProblems(log: Log): ErrorRequestHandler {
  return (thrown: unknown, request, response, _next) => {
    const error = thrown instanceof BusError ? thrown : translate(thrown);
    if (error.code === 'internal')
      log.error({ err: thrown, method: request.method, path: request.path }, 'a request failed');
    if (response.headersSent) return void response.destroy();
    answer(response, error);
  };
}

/** Express gives errors of its own a `status`: a path that cannot be decoded, say. */
function translate(thrown: unknown): BusError {
  const status = (thrown as { status?: unknown } | null)?.status;
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new BusError('bad_header', 'the request line cannot be read; check its percent-encoding', {
      cause: thrown,
    });
  }
  return new BusError('internal', 'this is a fault of the bus, and logged there', { cause: thrown });
}

function answer(response: Response, error: BusError): void {
  const body = problem(error);
  response.writeHead(error.status, STATUS_CODES[error.status], {
    'Content-Type': 'application/problem+json',
    'Content-Length': Buffer.byteLength(body),
    ...error.headers,
  });
  response.end(response.req.method === 'HEAD' ? undefined : body);
}

/** For paths that nobody serves. */
export const notFound: RequestHandler = (request) => {
  throw new BusError('not_found', `there is no ${request.path}`);
};

/** For the methods that a path does not take; GET takes HEAD too. */
export function onlyMethods(...methods: string[]): RequestHandler {
  const allow = methods.join(', ');
  return (request) => {
    throw new BusError('method_not_allowed', `${request.path} takes ${allow}`, { headers: { Allow: allow } });
  };
}

const LINGER_MS = 1000;

/** What Node's HTTP parser says, and what we make of it. */
const MALFORMED: Record<string, [code: ErrorCode, detail: string]> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'the request did not arrive in time'],
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'the headers are larger than 16 KiB'],
  HPE_INVALID_EOF_STATE: ['bad_body', 'the connection was closed before the whole request had come'],
};

/** Answers what Node's HTTP parser refuses, such as two `Content-Length` headers, before it is a request. */
export function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const refusal = new BusError(
    ...(MALFORMED[error.code ?? ''] ?? ['bad_header', 'this is not a well-formed HTTP request']),
  );
  const body = problem(refusal);
  const head = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  // Who keeps its side open would keep ours: time enough to read the answer.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
