import type { IncomingMessage, ServerResponse } from 'node:http';
import { ACL_ADVICE, BusError, ERRORS, StorageForbidden, StorageUnavailable } from '../errors.ts';
import { failureOf, type Log, loggedPath } from '../log.ts';
import { http } from '../node_http.ts';
import { BROWSER_HEADERS } from './answers.ts';

/** Returns the problem document of an error (RFC 9457). */
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

/** Returns the error to send to the caller. The text of an unexpected error goes only to the log. */
export function errorToAnswer(log: Log, thrown: unknown, request: IncomingMessage): BusError {
  const error = thrown instanceof BusError ? thrown : translate(thrown);
  if (error.code === 'internal')
    log.error({ err: thrown, method: request.method, path: loggedPath(request) }, 'a request failed');
  if (error instanceof StorageForbidden)
    log.error(failureOf(error), `Redis forbids what a request needs; ${ACL_ADVICE}`);
  return error;
}

export function answerProblem(error: BusError, response: ServerResponse): void {
  if (response.headersSent) return void response.destroy();
  const { method } = response.req;
  const isRead = method === 'GET' || method === 'HEAD';
  preparedProblem(isRead && error instanceof StorageUnavailable ? error.ofRead() : error)(response);
}

/** Builds the problem document of an error once. Returns a function that sends it any number of times. */
export function preparedProblem(error: BusError): (response: ServerResponse) => void {
  const body = problem(error);
  const headers = headersOf(error, body);
  return (response) => {
    response.writeHead(error.status, http.STATUS_CODES[error.status], headers);
    response.end(response.req.method === 'HEAD' ? undefined : body);
  };
}

/** Returns the BusError for an error that is not a BusError itself. Errors of Express have a `status`. */
function translate(thrown: unknown): BusError {
  const status = (thrown as { status?: unknown } | null)?.status;
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new BusError('bad_header', 'the request line cannot be read; check its percent-encoding', {
      cause: thrown,
    });
  }
  return new BusError('internal', 'this is a fault of the bus, and logged there', { cause: thrown });
}

export function headersOf(error: BusError, body: string) {
  return {
    ...BROWSER_HEADERS,
    'Content-Type': 'application/problem+json',
    'Content-Length': Buffer.byteLength(body),
    ...error.headers,
  };
}
