import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { causeOf, NO_TLS } from './unanswered.ts';

export interface Finding {
  check: string;
  isWell: boolean;
  detail: string;
  /** The action that the user should take against the problem. Absent if there is no problem. */
  advice?: string;
}

const TIMEOUT_MS = 5000;
const DAY_MS = 86_400_000;
const MIN_LEFT_DAYS = 14;

/**
 * Checks whether the server has a certificate that this machine trusts, and that stays valid for at least 14 days.
 */
export async function certificateFinding(url: string): Promise<Finding> {
  const check = 'tls';
  const socket = open(new URL(url)) as TLSSocket;
  const problem = await connected(socket, 'secureConnect');
  const certificate = socket.getPeerCertificate();
  const { authorized, authorizationError } = socket;
  const version = socket.getProtocol();
  socket.destroy();
  if (problem !== undefined) {
    const advice =
      problem === NO_TLS
        ? 'Try http:// if the bus is on this machine.'
        : 'Check host and port: https must be served there.';
    const detail = `no TLS connection: ${problem}`;
    return { check, isWell: false, detail, advice };
  }
  if (!authorized) {
    const code = String(authorizationError);
    const detail = `the certificate is not trusted: ${code}; it is for ${certificate.subject?.CN}`;
    const advice = /ALTNAME|not in the cert|does not match/.test(code)
      ? 'It is for another name: call the bus by a name in the certificate.'
      : 'Install its authority here (NODE_EXTRA_CA_CERTS names a file), or get another certificate.';
    return { check, isWell: false, detail, advice };
  }
  const days = Math.floor((Date.parse(certificate.valid_to) - Date.now()) / DAY_MS);
  const detail = `${version}, a trusted certificate for ${days} days more`;
  if (days >= MIN_LEFT_DAYS) return { check, isWell: true, detail };
  return { check, isWell: false, detail, advice: 'Renew the certificate.' };
}

/**
 * Connects to the server of a URL, with TLS if the URL is https, but sends nothing. Resolves with undefined if the
 * connection succeeds within `timeoutMs`, and otherwise with a text that says what went wrong.
 */
export async function reach(url: string, timeoutMs = TIMEOUT_MS): Promise<string | undefined> {
  if (!URL.canParse(url)) return 'no URL';
  const socket = open(new URL(url));
  const problem = await connected(socket, 'encrypted' in socket ? 'secureConnect' : 'connect', timeoutMs);
  const isTrusted = !('authorized' in socket) || socket.authorized;
  const why = 'authorizationError' in socket ? String(socket.authorizationError) : '';
  socket.destroy();
  return problem ?? (isTrusted ? undefined : `the certificate is not trusted: ${why}`);
}

function open({ protocol, hostname, port }: URL): Socket | TLSSocket {
  const isTls = protocol === 'https:';
  const host = hostname.replace(/^\[|\]$/g, '');
  const to = { host, port: Number(port || (isTls ? 443 : 80)) };
  if (!isTls) return connect(to);
  const isName = !/^[\d.]+$|:/.test(host);
  return connectTls({ ...to, rejectUnauthorized: false, ...(isName && { servername: host }) });
}

/**
 * Waits for an event of a socket. Resolves with undefined when the event comes. Resolves with a text that says what
 * went wrong if the socket fails or the event does not come in time.
 */
async function connected(socket: Socket, event: string, timeoutMs = TIMEOUT_MS): Promise<string | undefined> {
  try {
    await once(socket, event, { signal: AbortSignal.timeout(timeoutMs) });
    return undefined;
  } catch (error) {
    const isLate = (error as Error).name === 'AbortError';
    return isLate ? `no connection within ${timeoutMs / 1000} s` : causeOf(error).message;
  }
}
