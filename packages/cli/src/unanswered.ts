import { ConnectionError, ProblemError, type RoutemasterError, TimeLimitError } from '@routemaster/client';
import { Failure, type Target } from './command.ts';

/** Returns true if a call failed with this error, but the bus may have done what the call asked for. */
export function mayBeDone(error: unknown): boolean {
  if (error instanceof ProblemError) return error.status >= 500;
  return (error instanceof ConnectionError || error instanceof TimeLimitError) && error.mayBeDone;
}

/**
 * Returns a handler for the errors of a call that must not simply be made again. If the bus may have done the call, the
 * error also says this advice.
 */
export function adviseIfPerhapsDone(advice: string): (error: RoutemasterError) => never {
  return (error) => {
    if (!mayBeDone(error)) throw error;
    throw new Failure(error.code, withAdvice(error.message, advice), { cause: error.cause });
  };
}

/** Returns a message followed by advice. A full stop at the end of the message is left out. */
export function withAdvice(message: string, advice: string): string {
  return `${message.replace(/\.$/, '')}; ${advice}`;
}

/**
 * Returns what the user can do if no connection to the bus could be made. `code` is the reason. There is advice for two
 * reasons: nothing listens at the address, or the name of the host is not known. For any other reason, returns
 * undefined.
 */
export function adviceIfUnreached(code: string, { url, from, meant }: Target): string | undefined {
  if (code === 'ECONNREFUSED') {
    const proxy = url.startsWith('https:') ? ', and HTTPS_PROXY if it is set' : '';
    return `nothing listens at ${url}: start the bus, or check host and port of ${from}${proxy}`;
  }
  if (!/^(ENOTFOUND|EAI_AGAIN)$/.test(code)) return undefined;
  const name = meant();
  const question = name === undefined ? '' : ` (did you mean ${name} of .rtmrc?)`;
  return `the host ${new URL(url).hostname} is not known here${question}: check ${from}, and DNS`;
}

/**
 * Returns advice on an error with which a command ended. It is the advice of `adviceIfUnreached`, if there is one.
 * Otherwise, if another attempt would not help, as with a certificate that is not trusted, the advice is to run
 * `rtm doctor`. `target` is called only if a call of the bus caused the error.
 */
export function adviceOnEnd(error: unknown, target: () => Target): string | undefined {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof ConnectionError)
      return adviceIfUnreached(causeOf(each).code, target()) ?? (each.isTransient ? undefined : DOCTOR);
  return undefined;
}

const DOCTOR = 'rtm doctor says what to do';

export const NO_TLS = 'what answers there does not speak TLS, but perhaps plain http';

/** Returns the reason why a request got no answer. `error` is what `fetch`, a socket or the client library threw. */
export function causeOf(error: unknown): { code: string; message: string } {
  const thrown = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
  // If a proxy refuses to connect, `fetch` throws an error whose `cause` is a DOMException. The DOMException's own
  // `cause` says why.
  const cause = (thrown instanceof DOMException ? (thrown.cause ?? thrown) : thrown) as NodeJS.ErrnoException;
  const { code = cause.name, message } = cause;
  // The message of OpenSSL is replaced, because it has internal numbers, names of source files and a line break.
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') return { code, message: NO_TLS };
  // For a port that it forbids, `fetch` throws an error with this message and without a code.
  if (message === 'bad port')
    return {
      code: 'BAD_PORT',
      message: 'this port is reserved for another protocol, and HTTP is not sent to it',
    };
  // If a host has several addresses and none can be reached, the error has a code but no message.
  return { code, message: message || code };
}
