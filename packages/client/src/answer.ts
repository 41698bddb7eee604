import { PROBLEMS } from './generated/problems.ts';
import { ProblemError } from './problem.ts';

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** Maximum characters that an error quotes from an answer, if the answer is not a problem document. */
const MAX_QUOTED = 200;

/**
 * Returns true if the answer is 2xx and seems to come from the bus. For example, the login page of a hotel network may
 * answer any request with 200 and a web page. So only `GET /docs` may get a web page, and the answer to a publish must
 * be empty.
 */
export function isDone(
  { status, headers, text }: Answer,
  { method, path }: { method: string; path: string },
): boolean {
  if (status < 200 || status > 299) return false;
  if (method === 'POST' && path.startsWith('/topics/'))
    return (status === 200 || status === 204) && text === '';
  const isPage =
    text !== '' && /^(text\/html|application\/xhtml\+xml)\b/i.test(headers.get('content-type') ?? '');
  return !isPage || path === '/docs';
}

/** Returns the error for an answer that is not 2xx, or not from the bus. `path` is the path of the request. */
export function problemOf(answer: Answer, path: string): ProblemError {
  const { status, headers, text } = answer;
  const { code, title, detail, status: _, type: __, ...members } = documentIn(text);
  const retryAfterMs = readRetryAfter(headers.get('retry-after'));
  if (typeof code !== 'string')
    return new ProblemError({
      code: `http_${status}`,
      status,
      title: `The answer is ${status}`,
      detail: withoutDocument(answer, path),
      members,
      retryAfterMs,
    });
  const problem = { code, status, title: String(title), detail: String(detail), members, retryAfterMs };
  return isKnown(code) ? new PROBLEMS[code](problem) : new ProblemError(problem);
}

function isKnown(code: string): code is keyof typeof PROBLEMS {
  return Object.hasOwn(PROBLEMS, code);
}

function documentIn(text: string): Record<string, unknown> {
  try {
    const document: unknown = JSON.parse(text);
    return typeof document === 'object' && document !== null ? { ...document } : {};
  } catch {
    return {};
  }
}

function withoutDocument({ status, headers, text }: Answer, path: string): string {
  const location = headers.get('location');
  if (status < 400 && location !== null) {
    const url = location.endsWith(path) ? location.slice(0, -path.length) : location;
    const why = '; a bus in production (FORCE_SSL) expects a proxy that ends TLS';
    return `the answer is a redirect: call the bus at ${url}${url.startsWith('https:') ? why : ''}`;
  }
  const quoted = text.trim() === '' ? '' : `: ${text.trim().slice(0, MAX_QUOTED)}`;
  return `the answer is ${status}, not from the bus${quoted}`;
}

/**
 * Returns the wait (ms) that the header Retry-After asks for: a number of seconds, or a date (RFC 9110). Returns
 * undefined if there is no such header, or it cannot be read.
 */
function readRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
