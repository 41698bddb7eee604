import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { BusError, ERRORS, type ErrorCode, StorageForbidden } from '../errors.ts';
import { failureOf, type Log, loggedPath } from '../log.ts';
import { http } from '../node_http.ts';
import { BROWSER_HEADERS } from './answers.ts';

function problem(error: BusError): string {
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
    log.error(failureOf(error), 'Redis forbids what a request needs; docs/operating.md has the ACL');
  return error;
}

export function answerProblem(
  log: Log,
  thrown: unknown,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const error = errorToAnswer(log, thrown, request);
  if (response.headersSent) return void response.destroy();
  preparedProblem(error)(response);
}

/** Builds the problem document of an error (RFC 9457) once. Returns a function that sends it any number of times. */
export function preparedProblem(error: BusError): (response: ServerResponse) => void {
  const body = problem(error);
  const headers = headersOf(error, body);
  return (response) => {
    response.writeHead(error.status, http.STATUS_CODES[error.status], headers);
    response.end(response.req.method === 'HEAD' ? undefined : body);
  };
}

/** Makes a BusError of any other error. Express gives its own errors a `status`. */
function translate(thrown: unknown): BusError {
  const status = (thrown as { status?: unknown } | null)?.status;
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new BusError('bad_header', 'the request line cannot be read; check its percent-encoding', {
      cause: thrown,
    });
  }
  return new BusError('internal', 'this is a fault of the bus, and logged there', { cause: thrown });
}

const LINGER_MS = 1000;

/** How the bus answers errors of Node's HTTP parser. An error that is missing here becomes bad_header. */
const MALFORMED: Record<string, [code: ErrorCode, detail: string]> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'the request, or its headers, did not arrive in time'],
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'the headers are larger than 16 KiB'],
  HPE_INVALID_EOF_STATE: ['bad_body', 'the connection was closed before the whole request had come'],
};

/** An error of Node's HTTP parser. `bytesParsed` is the position of the refused byte in `rawPacket`. */
export interface ParserError extends NodeJS.ErrnoException {
  rawPacket?: Buffer;
  bytesParsed?: number;
}

const ALLOW_ALL = { Allow: 'GET, HEAD, POST, PUT, DELETE' };
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]+ \S+ HTTP\/1\.\d\r?$/;

/** Answers a request that Node's HTTP parser refuses, such as one with two `Content-Length` headers. */
export function refuseMalformed(error: ParserError, socket: Duplex): void {
  if (!socket.writable) return void socket.destroy();
  if (isUnknownMethod(error)) {
    const detail = `there is no such method; methods are ${ALLOW_ALL.Allow}, in capitals`;
    return void lastWords(socket, new BusError('method_not_allowed', detail, { headers: ALLOW_ALL }));
  }
  const [code, detail] = MALFORMED[error.code ?? ''] ?? [
    'bad_header',
    'this is not a well-formed HTTP request',
  ];
  lastWords(socket, new BusError(code, detail));
}

/** Refuses a request with the method `CONNECT`, for which Node makes no response. */
export function refuseConnect(_request: IncomingMessage, socket: Duplex): void {
  lastWords(socket, new BusError('method_not_allowed', 'this is no proxy', { headers: ALLOW_ALL }));
}

/**
 * True if a request line is right except for its method. The whole line is checked, because the parser reports a wrong
 * method even for bytes that are no HTTP. A line that came in several chunks is not recognized, because `rawPacket` has
 * only the last chunk.
 */
function isUnknownMethod({ code, rawPacket, bytesParsed = 0 }: ParserError): boolean {
  // HPE_INVALID_CONSTANT is for methods of RTSP, such as DESCRIBE. `bytesParsed` is then the end of the request line.
  if (!rawPacket || (code !== 'HPE_INVALID_METHOD' && code !== 'HPE_INVALID_CONSTANT')) return false;
  const text = rawPacket.toString('latin1');
  const begin = bytesParsed > 0 ? text.lastIndexOf('\n', bytesParsed - 1) + 1 : 0;
  const end = text.indexOf('\n', begin);
  return end > 0 && REQUEST_LINE.test(text.slice(begin, end));
}

function headersOf(error: BusError, body: string) {
  return {
    ...BROWSER_HEADERS,
    'Content-Type': 'application/problem+json',
    'Content-Length': Buffer.byteLength(body),
    ...error.headers,
  };
}

/** Sends the answer to an error, and closes the connection. */
function lastWords(socket: Duplex, error: BusError): void {
  const body = problem(error);
  const headers = { ...headersOf(error, body), Connection: 'close' };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const status = `HTTP/1.1 ${error.status} ${http.STATUS_CODES[error.status]}`;
  socket.on('error', () => {}); // ignored: the other end of the connection has gone
  socket.end(`${[status, ...lines].join('\r\n')}\r\n\r\n${body}`);
  // The sender has a limited time to read the answer and to close its side of the connection.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
