import { isIP, type LookupFunction, type Socket } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { buildConnector, errors, Pool, ProxyAgent } from 'undici';
import { type CallbackPolicy, CallbackRefused } from '../../subscribing/callback_policy.ts';
import type { DispatcherTo } from './callback_hosts.ts';

const MAX_HEADER_BYTES = 16 * 1024;
/**
 * Maximum bytes of an answer that undici gets to parse at a time. If the headers are too long, undici still parses all
 * bytes that it was given, and makes an error for each header in them. With the 64 KiB that Node reads at a time, this
 * would take 200 ms.
 */
const SLICE_BYTES = 1024;

/**
 * Time for which an idle connection is kept. A subscriber may ask for up to MAX_IDLE_KEPT_MS by the header
 * `Keep-Alive`.
 */
const IDLE_KEPT_MS = 4000;
const MAX_IDLE_KEPT_MS = 10_000;

/** Codes of the errors of a connection that the other side has closed. */
const CLOSED = new Set<string | undefined>(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * Code of the error of a request for which undici chose a kept connection through the proxy that was already closed.
 * undici does not open another connection: when the last connection to a host closes, it closes the host's dispatcher.
 */
const NOT_SENT = 'UND_ERR_CLOSED';

/** The errors that `readInSlices` has collected for `keptConnectionClosed`. */
const keptClosed = new WeakSet<Error>();

export interface ConnectionSettings {
  /** Maximum time from the start of a delivery, connecting included, to the status line of its answer. */
  deliveryTimeoutMs: number;
  /** Maximum time for opening a connection, including DNS and the TLS handshake. */
  connectTimeoutMs: number;
  sslVerify: boolean;
  /** Certificate authorities (PEM) to trust in addition to those of Node. */
  callbackCa?: string | undefined;
  egressProxy?: string | undefined;
  /**
   * Maximum open connections. If there are more, the connections to the least recently used host are closed once they
   * are idle.
   */
  keptConnections: number;
}

/**
 * Returns a function that makes the undici dispatcher for an origin. `policy` checks the address of each new
 * connection. A proxy resolves host names itself, so behind a proxy `policy` checks only the URLs.
 */
export function callbackConnections(settings: ConnectionSettings, policy: CallbackPolicy): DispatcherTo {
  const { deliveryTimeoutMs, connectTimeoutMs, egressProxy } = settings;
  const limits = {
    headersTimeout: deliveryTimeoutMs,
    bodyTimeout: deliveryTimeoutMs,
    keepAliveTimeout: IDLE_KEPT_MS,
    keepAliveMaxTimeout: MAX_IDLE_KEPT_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    // HTTP/2 is off, because these limits of time and size are tested for HTTP/1.1 only.
    allowH2: false,
  };
  const tls = {
    rejectUnauthorized: settings.sslVerify,
    secureContext: secureContext(settings.callbackCa),
    allowH2: false,
  };
  if (egressProxy === undefined) {
    const connect = connector({ ...tls, timeout: connectTimeoutMs }, policy);
    return (origin, opened) => new Pool(origin, { ...limits, connect: reporting(connect, opened) });
  }
  return (_, opened) =>
    new ProxyAgent({
      ...limits,
      uri: egressProxy,
      proxyTunnel: true,
      connectTimeout: connectTimeoutMs,
      requestTls: tls,
      // The certificate of the proxy is checked even if those of callbacks are not (`sslVerify`). The address of the
      // proxy is not checked, because the operator has chosen it.
      proxyTls: { ...tls, rejectUnauthorized: true },
      clientFactory: (proxy, options) => new Pool(proxy, { ...options, headersTimeout: connectTimeoutMs }),
      factory: (origin, options) => {
        const refused = policy.refusalUnresolved(new URL(origin));
        if (refused !== undefined) throw new CallbackRefused(refused);
        const { connect, ...rest } = options as { connect: buildConnector.connector };
        return new Pool(origin, {
          ...rest,
          connect: reporting(timeLimited(connectTimeoutMs, connect), opened),
        });
      },
    });
}

/**
 * Wraps a connector that connects through the proxy. It fails if the connection is not open within `ms`. undici alone
 * limits the connection to the proxy and the TLS handshake, but not the time that the proxy takes between them.
 */
function timeLimited(ms: number, connect: buildConnector.connector): buildConnector.connector {
  return (target, callback) => {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      callback(
        new errors.ConnectTimeoutError(`the proxy has made no connection to the host within ${ms} ms`),
        null,
      );
    }, ms);
    connect(target, (...outcome) => {
      clearTimeout(timer);
      if (isLate) outcome[1]?.destroy();
      else callback(...outcome);
    });
  };
}

/** Wraps a connector. Each connection that it opens is read in slices (`readInSlices`), and given to `opened`. */
function reporting(
  connect: buildConnector.connector,
  opened: (socket: Socket) => void,
): buildConnector.connector {
  return (target, callback) =>
    connect(target, (...outcome) => {
      if (outcome[1]) {
        readInSlices(outcome[1]);
        opened(outcome[1]);
      }
      callback(...outcome);
    });
}

/**
 * Makes `read()` return at most SLICE_BYTES at a time, and nothing once undici has closed the connection. Otherwise
 * undici would go on to parse bytes of an answer that it has refused. Also collects the errors for which
 * `keptConnectionClosed` returns true.
 */
function readInSlices(socket: Socket): void {
  const read = socket.read.bind(socket);
  /**
   * How many bytes this side had sent when it last received any. Infinity if it has received none. If it has sent more
   * since, a request is waiting for its answer.
   */
  let answeredBytes = Number.POSITIVE_INFINITY;
  socket.read = (size = Math.min(socket.readableLength, SLICE_BYTES)) => {
    const bytes = socket.destroyed ? null : read(size);
    if (bytes) answeredBytes = socket.bytesWritten;
    return bytes;
  };
  socket.once('error', (error: NodeJS.ErrnoException) => {
    if (CLOSED.has(error.code) && socket.bytesWritten > answeredBytes) keptClosed.add(error);
  });
}

/**
 * True if three things hold for a request that failed with `error`: its connection had carried earlier requests, no
 * byte of the answer came, and the other side closed the connection. Most likely the other side closed it as idle, and
 * has not seen the request. Also true if the request was not sent at all, because its connection through the proxy was
 * closed already.
 */
export function keptConnectionClosed(error: NodeJS.ErrnoException): boolean {
  return keptClosed.has(error) || error.code === NOT_SENT;
}

/**
 * Returns a connector that connects only to ports and addresses that the policy accepts. The connector itself checks
 * the port and, if the URL contains one, the IP address. If the URL has a host name, undici calls `lookup`, which
 * checks the addresses of the host.
 */
function connector(options: buildConnector.BuildOptions, policy: CallbackPolicy): buildConnector.connector {
  const by = (protocol: string) => buildConnector({ ...options, lookup: lookupBy(policy, protocol) });
  const https = by('https:');
  const http = by('http:');
  return (target, callback) => {
    const refused = policy.refusalUnresolved(target);
    if (refused !== undefined) return callback(new CallbackRefused(refused), null);
    return target.protocol === 'https:' ? https(target, callback) : http(target, callback);
  };
}

/** Returns a `lookup` for `net.connect`. It finds only those addresses of a host that the policy permits. */
function lookupBy(policy: CallbackPolicy, protocol: string): LookupFunction {
  return (hostname, options, callback) => {
    policy
      .addresses(protocol, hostname)
      .then((found) => found.map((address) => ({ address, family: isIP(address) })))
      .then(
        // If `callback` were called here, an error that it throws would reject the promise of `then`. So it runs in
        // `nextTick`.
        (found) => {
          const [first] = found;
          if (options.all) process.nextTick(callback, null, found);
          else process.nextTick(callback, null, first?.address, first?.family);
        },
        (error) => process.nextTick(callback, error, ''),
      );
  };
}

/** Creates the TLS context that all connections share, since loading 150 certificates takes milliseconds. */
function secureContext(callbackCa: string | undefined): SecureContext {
  const minVersion = 'TLSv1.2';
  if (callbackCa === undefined) return createSecureContext({ minVersion });
  return createSecureContext({ minVersion, ca: [...getCACertificates('default'), callbackCa] });
}
