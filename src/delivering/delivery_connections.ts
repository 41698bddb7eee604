import { isIP, type LookupFunction } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { type CallbackPolicy, CallbackRefused } from '../subscribing/callback_policy.ts';

/** What the headers of an answer may take. */
const MOST_HEADER_BYTES = 16 * 1024;

export interface ConnectionSettings {
  /** From the start of a delivery to the status of its answer. */
  deliveryTimeoutMs: number;
  /** Until a connection stands: names resolved, TLS settled. */
  connectTimeoutMs: number;
  sslVerify: boolean;
  /** Certificates, in PEM, that vouch for callbacks beside those that Node knows. */
  callbackCa?: string | undefined;
  /** The URL of a proxy that makes the connections. */
  egressProxy?: string | undefined;
}

/**
 * Where deliveries are sent, over connections that are kept alive for each host. A connection goes only to an address that the
 * policy has just let pass; through a proxy that is for the proxy to see to, save for literal addresses.
 */
export function callbackConnections(settings: ConnectionSettings, policy: CallbackPolicy): Dispatcher {
  const { deliveryTimeoutMs, connectTimeoutMs, egressProxy } = settings;
  const limits = {
    headersTimeout: deliveryTimeoutMs,
    bodyTimeout: deliveryTimeoutMs,
    maxHeaderSize: MOST_HEADER_BYTES,
    // One protocol, whose limits we know.
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
    // Nobody but the operator names the proxy: no address is refused for it, and its certificate must be good.
    proxyTls: { ...tls, rejectUnauthorized: true },
    clientFactory: (origin, options) => new Pool(origin, { ...options, headersTimeout: deliveryTimeoutMs }),
    factory: (origin, options) => {
      const refused = policy.refusalUnresolved(new URL(origin));
      if (refused !== undefined) throw new CallbackRefused(refused);
      return new Pool(origin, options);
    },
  });
}

/** Connects to what the policy admits. undici asks no `lookup` for literal addresses, so these are checked before. */
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

/** Resolves a name for `net.connect`, which tries what it is given and nothing else. */
function lookupBy(policy: CallbackPolicy, protocol: string): LookupFunction {
  return (hostname, options, callback) => {
    policy
      .addresses(protocol, hostname)
      .then((found) => found.map((address) => ({ address, family: isIP(address) })))
      .then(
        // Outside of the promise: what throws in there is no failure to resolve.
        (found) => {
          const [first] = found;
          if (options.all) process.nextTick(callback, null, found);
          else process.nextTick(callback, null, first?.address, first?.family);
        },
        (error) => process.nextTick(callback, error, ''),
      );
  };
}

/** One for all connections: with 150 certificates it takes milliseconds to make. At least TLS 1.2, whatever Node is told. */
function secureContext(ours: string | undefined): SecureContext {
  const minVersion = 'TLSv1.2';
  if (ours === undefined) return createSecureContext({ minVersion });
  return createSecureContext({ minVersion, ca: [...getCACertificates('default'), ours] });
}
