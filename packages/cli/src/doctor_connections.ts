import { once } from 'node:events';
import { type ClientRequest, request as http } from 'node:http';
import { request as https } from 'node:https';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { bad, type Finding, good } from './doctor_finding.ts';
import { causeOf, NO_TLS } from './unanswered.ts';

const TIMEOUT_MS = 5000;
const DAY_MS = 86_400_000;
const MIN_LEFT_DAYS = 14;

/** Checks whether the server has a certificate that this machine trusts, and that stays valid for 14 days at least. */
export async function certificateFinding(url: string): Promise<Finding> {
  const connection = new Connection(new URL(url));
  const problem = await connection.opened(TIMEOUT_MS);
  if (problem !== undefined) {
    const advice =
      problem === NO_TLS
        ? 'Try http:// if the bus is on this machine.'
        : 'Check host and port, and HTTPS_PROXY if it is set: https must be served there.';
    return bad('tls', `no TLS connection: ${problem}`, advice);
  }
  const socket = connection.socket as TLSSocket;
  const certificate = socket.getPeerCertificate();
  const { authorized, authorizationError } = socket;
  const version = socket.getProtocol();
  connection.close();
  if (!authorized) {
    const code = String(authorizationError);
    const detail = `the certificate is not trusted: ${code}; it is for ${certificate.subject?.CN}`;
    const advice = /ALTNAME|not in the cert|does not match/.test(code)
      ? 'It is for another name: call the bus by a name in the certificate.'
      : 'Install its authority here (NODE_EXTRA_CA_CERTS names a file), or get another certificate.';
    return bad('tls', detail, advice);
  }
  const days = Math.floor((Date.parse(certificate.valid_to) - Date.now()) / DAY_MS);
  const detail = `${version}, a trusted certificate for ${days} ${days === 1 ? 'day' : 'days'} more`;
  return days >= MIN_LEFT_DAYS ? good('tls', detail) : bad('tls', detail, 'Renew the certificate.');
}

/** Connects to a server, but sends no request. Resolves with undefined, or with a text that says what went wrong. */
export async function reach(url: string, timeoutMs = TIMEOUT_MS): Promise<string | undefined> {
  if (!URL.canParse(url)) return 'no URL';
  const connection = new Connection(new URL(url));
  const problem = await connection.opened(timeoutMs);
  const { socket } = connection;
  connection.close();
  if (problem !== undefined || !(socket instanceof TLSSocket) || socket.authorized) return problem;
  return `the certificate is not trusted: ${socket.authorizationError}`;
}

/** Resolves with a text for the user if the server of an http URL speaks TLS, and with undefined if it does not. */
export async function tlsInstead(url: string, timeoutMs: number): Promise<string | undefined> {
  const { protocol, hostname, port } = new URL(url);
  if (protocol === 'https:') return undefined;
  const connection = new Connection(new URL(`https://${hostname}:${port || 80}`));
  const problem = await connection.opened(timeoutMs);
  connection.close();
  return problem === undefined ? 'https is served there: write https:// before the host' : undefined;
}

/**
 * A connection to the server of a URL, for finding out whether the server can be reached. It is made by an HTTP
 * request, because Node's requests can connect through a proxy. The request itself is never sent.
 */
class Connection {
  socket: Socket | undefined;
  readonly #request: ClientRequest;

  constructor(url: URL) {
    this.#request = url.protocol === 'https:' ? https(url, { rejectUnauthorized: false }) : http(url);
    // The request may fail after `opened` has resolved. Without a listener, such an error would end this process.
    this.#request.on('error', () => {});
  }

  async opened(timeoutMs: number): Promise<string | undefined> {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const [socket]: Socket[] = await once(this.#request, 'socket', { signal });
      this.socket = socket;
      // Behind a proxy, Node hands out the socket only after the TLS handshake (`getPeerFinished` then returns a
      // value). The event `secureConnect` will not come again, so it is not awaited.
      if (socket instanceof TLSSocket && !socket.getPeerFinished())
        await once(socket, 'secureConnect', { signal });
      else if (socket?.connecting) await once(socket, 'connect', { signal });
      return undefined;
    } catch (error) {
      this.close();
      return signal.aborted ? `no connection within ${timeoutMs / 1000} s` : causeOf(error).message;
    }
  }

  close(): void {
    this.#request.destroy();
  }
}
