import { isIP, type LookupFunction } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { type CallbackPolicy, CallbackRefused } from '../subscribing/callback_policy.ts';

/** The limit on the headers of an answer. */
const MAX_HEADER_BYTES = 16 * 1024;

export interface ConnectionSettings {
  /** The limit from the start of a delivery to the status of its answer. */
  deliveryTimeoutMs: number;
  /** The limit for a connection, including DNS and the TLS handshake. */
  connectTimeoutMs: number;
  sslVerify: boolean;
  /** Authorities, in PEM, that are trusted beside those of Node. */
  callbackCa?: string | undefined;
  /** The URL of a proxy through which all deliveries go. */
  egressProxy?: string | undefined;
}

/**
 * Sends deliveries over connections that are kept alive for each host. Each connection goes only to an address that the policy
 * has just accepted. A proxy resolves names itself and decides where it connects; the policy then checks only literal addresses.
 */
export function callbackConnections(settings: ConnectionSettings, policy: CallbackPolicy): Dispatcher {
  const { deliveryTimeoutMs, connectTimeoutMs, egressProxy } = settings;
  const limits = {
    headersTimeout: deliveryTimeoutMs,
    bodyTimeout: deliveryTimeoutMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    // Only HTTP/1.1: the limits above are known to hold for it.
    allowH2: false,
  };
  const tls = {
    rejectUnauthorized: settings.sslVerify,
    secureContext: secureContext(settings.callbackCa),
    allowH2: false,
  };
  if (egressProxy === undefined)
    return new Agent({ ...limits, connect: connector({ ...tls, timeout: connectTimeoutMs }, policy) });
  return new ProxyAgent({
    ...limits,
    uri: egressProxy,
    proxyTunnel: true,
    connectTimeout: connectTimeoutMs,
    requestTls: tls,
    // The operator chose the proxy, so its address is not checked, but its certificate always is.
    proxyTls: { ...tls, rejectUnauthorized: true },
    clientFactory: (origin, options) => new Pool(origin, { ...options, headersTimeout: deliveryTimeoutMs }),
    factory: (origin, options) => {
      const refused = policy.refusalUnresolved(new URL(origin));
      if (refused !== undefined) throw new CallbackRefused(refused);
      return new Pool(origin, options);
    },
  });
}

/** Connects to what the policy accepts. undici calls no `lookup` for literal addresses, so they are checked before. */
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

/** A `lookup` for `net.connect`, which connects only to the addresses that it returns. */
function lookupBy(policy: CallbackPolicy, protocol: string): LookupFunction {
  return (hostname, options, callback) => {
    policy
      .addresses(protocol, hostname)
      .then((found) => found.map((address) => ({ address, family: isIP(address) })))
      .then(
        // `nextTick`: an error thrown by the callback must not be taken for a failed lookup.
        (found) => {
          const [first] = found;
          if (options.all) process.nextTick(callback, null, found);
          else process.nextTick(callback, null, first?.address, first?.family);
        },
        (error) => process.nextTick(callback, error, ''),
      );
  };
}

/** Shared by all connections: loading 150 certificates takes milliseconds. TLS 1.2 at least, whatever Node's options say. */
function secureContext(ours: string | undefined): SecureContext {
  const minVersion = 'TLSv1.2';
  if (ours === undefined) return createSecureContext({ minVersion });
  return createSecureContext({ minVersion, ca: [...getCACertificates('default'), ours] });
}
