import { isIP, type LookupFunction } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { type CallbackPolicy, CallbackRefused } from '../subscribing/callback_policy.ts';

const MAX_HEADER_BYTES = 16 * 1024;

export interface ConnectionSettings {
  /** Limit from the start of a delivery to the status of its answer. */
  deliveryTimeoutMs: number;
  /** Limit for opening a connection, including DNS and the TLS handshake. */
  connectTimeoutMs: number;
  sslVerify: boolean;
  /** Certificate authorities (PEM) to trust in addition to those of Node. */
  callbackCa?: string | undefined;
  /** URL of a proxy that forwards all deliveries. */
  egressProxy?: string | undefined;
}

/**
 * Returns a dispatcher that keeps connections to each host alive. Before each connection the policy checks
 * the address. A proxy resolves names itself, so the policy then checks only literal addresses.
 */
export function callbackConnections(settings: ConnectionSettings, policy: CallbackPolicy): Dispatcher {
  const { deliveryTimeoutMs, connectTimeoutMs, egressProxy } = settings;
  const limits = {
    headersTimeout: deliveryTimeoutMs,
    bodyTimeout: deliveryTimeoutMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    // The limits above are tested for HTTP/1.1 only.
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

/** Connects only to accepted addresses. Literal ones are checked here, as undici does not look them up. */
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

/** Returns a `lookup` for `net.connect` that resolves a name to the addresses that the policy accepts. */
function lookupBy(policy: CallbackPolicy, protocol: string): LookupFunction {
  return (hostname, options, callback) => {
    policy
      .addresses(protocol, hostname)
      .then((found) => found.map((address) => ({ address, family: isIP(address) })))
      .then(
        // `nextTick` keeps an error of the callback out of this promise, which would report it as a failed
        // lookup.
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
