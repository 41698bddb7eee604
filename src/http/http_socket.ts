import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { BusError, type ErrorCode } from '../errors.ts';
import { http } from '../node_http.ts';
import type { Connection } from './connection.ts';
import { headersOf, problem } from './problems.ts';

export const CONNECTION = Symbol('connection');
const REFUSED = Symbol('refused');

/**
 * The socket of an HTTP connection. CONNECTION is the object that handles its requests. REFUSED is true if an error was
 * sent, or will be, for bytes that the HTTP parser cannot read.
 */
export type HttpSocket = Socket & { [CONNECTION]?: Connection; [REFUSED]?: true };

const LINGER_MS = 1000;

/** How the bus answers errors of Node's HTTP parser. An error that is missing here becomes bad_header. */
const MALFORMED: Record<string, [code: ErrorCode, detail: string]> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'the request, or its headers, did not arrive in time'],
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'the headers are larger than 16 KiB'],
  HPE_INVALID_EOF_STATE: ['bad_body', 'the connection was closed before the whole request had come'],
};

/** An error of Node's HTTP parser. `bytesParsed` is the position of the refused byte in `rawPacket`. */
interface ParserError extends NodeJS.ErrnoException {
  rawPacket?: Buffer;
  bytesParsed?: number;
}

const ALLOW_ALL = { Allow: 'GET, HEAD, POST, PUT, DELETE' };
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]+ \S+ HTTP\/1\.\d\r?$/;

/**
 * Sends an error for bytes that the HTTP parser cannot read. Earlier requests of the connection may still be under way.
 * Then the error is sent after their answers.
 */
export function refuseUnreadable(error: ParserError, socket: HttpSocket): void {
  if (error.code === 'ECONNRESET') return void socket.destroy();
  // After unreadable bytes, the parser reports an error for each chunk that follows. Only the first error is answered.
  if (socket[REFUSED]) return;
  socket[REFUSED] = true;
  afterAnswers(socket, () => {
    const last = socket[CONNECTION]?.last;
    // The unreadable bytes may be in the body of a request whose answer has been sent, at least in part. An error would
    // be a second answer, or would come in the middle of the first. So the connection is closed without an error.
    if (last?.headersSent && !last.req.complete) afterAnswer(last, socket, () => endAndClose(socket));
    else refuseMalformed(error, socket);
  });
}

/**
 * Calls `act` when the responses to all complete requests have been sent, or at once if they were sent already. Never
 * calls it if one of these responses ends the connection.
 */
export function afterAnswers(socket: HttpSocket, act: () => void): void {
  const last = socket[CONNECTION]?.lastComplete;
  if (last) afterAnswer(last, socket, act);
  else act();
}

function afterAnswer(response: ServerResponse, socket: HttpSocket, act: () => void): void {
  if (response.writableFinished || response.destroyed) act();
  else
    response.once('finish', () => {
      if (socket.writable) act();
    });
}

function refuseMalformed(error: ParserError, socket: Duplex): void {
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
export function refuseConnect(socket: Duplex): void {
  lastWords(socket, new BusError('method_not_allowed', 'this is no proxy', { headers: ALLOW_ALL }));
}

/**
 * True if the bytes are an HTTP request with an unknown method. For bytes that are not HTTP, the parser reports a wrong
 * method too, so the whole request line is checked. A line that came in several chunks is not recognized: `rawPacket`
 * has only the last chunk.
 */
function isUnknownMethod({ code, rawPacket, bytesParsed = 0 }: ParserError): boolean {
  // For an unknown method, the parser reports HPE_INVALID_METHOD. But it knows some methods of RTSP, such as DESCRIBE.
  // For these, it reports HPE_INVALID_CONSTANT when it comes to `HTTP` in the request line, at `bytesParsed`.
  if (!rawPacket || (code !== 'HPE_INVALID_METHOD' && code !== 'HPE_INVALID_CONSTANT')) return false;
  const text = rawPacket.toString('latin1');
  const begin = bytesParsed > 0 ? text.lastIndexOf('\n', bytesParsed - 1) + 1 : 0;
  const end = text.indexOf('\n', begin);
  return end > 0 && REQUEST_LINE.test(text.slice(begin, end));
}

/** Sends the answer to an error, and closes the connection. */
function lastWords(socket: Duplex, error: BusError): void {
  const body = problem(error);
  const headers = { ...headersOf(error, body), Connection: 'close' };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const status = `HTTP/1.1 ${error.status} ${http.STATUS_CODES[error.status]}`;
  endAndClose(socket, `${[status, ...lines].join('\r\n')}\r\n\r\n${body}`);
}

/** Sends `text`, ends this side of the connection, and closes the connection soon after. */
function endAndClose(socket: Duplex, text = ''): void {
  socket.on('error', () => {}); // ignored: the other end of the connection has gone
  socket.end(text);
  // The sender has a limited time to read the answer and to close its side of the connection.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** Returns the head of a request without its Upgrade header. */
export function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
}
