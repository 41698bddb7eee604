import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { within } from '../clock.ts';
import { BootError } from '../errors.ts';
import { parseUrl } from '../urls.ts';
import { Addresses, isRefused } from './addresses.ts';

const MAX_URL_LENGTH = 2048;

const RESOLVE_WAIT_MS = 2000;

/** Matches a host, without brackets, that is the machine of the bus. */
const LOCAL_HOST = /^((.+\.)?localhost|127(\.\d+){3}|::1)$/i;

const HTTPS_UNLESS_ALLOWED =
  'it must begin with https://; plain http is only for addresses in ROUTEMASTER_CALLBACK_ALLOW';

/** Resolves with the IP addresses of a host name. Rejects if it has none, or if DNS fails. */
export type Resolve = (hostname: string) => Promise<string[]>;

export interface PolicyOptions {
  /** The ports that callbacks may use, such as `443` and `8000-8999`. If the list is empty, all ports are allowed. */
  callbackPorts?: readonly string[];
  /** URL of a proxy that forwards deliveries and resolves their host names. */
  egressProxy?: string | undefined;
  resolve?: Resolve;
}

type PortRange = [first: number, last: number];

/** The destination of a connection. An IPv6 `hostname` may be in brackets, as in a URL. */
interface Target {
  protocol: string;
  hostname: string;
  port: string;
}

/** Thrown if the policy forbids a connection to a callback. */
export class CallbackRefused extends Error {
  override readonly name = 'CallbackRefused';
  /** Says why the callback is refused, and what the subscriber should change. */
  readonly advice: string;

  constructor(advice: string) {
    super(`refused to connect: ${advice}`);
    this.advice = advice;
  }
}

/**
 * Decides which callbacks the bus may call: https to public addresses, and https or http to addresses that the operator
 * allows. `refusal` checks a callback when a client subscribes. `refusalUnresolved` and `addresses` check every
 * connection, because the addresses of a host name can change.
 */
export class CallbackPolicy {
  readonly #addresses: Addresses;
  readonly #ports: PortRange[];
  readonly #proxied: boolean;
  readonly #resolve: Resolve;

  /**
   * Callbacks may go to the addresses and networks (CIDR) in `allow` even if they are not public, and even by plain
   * http. Throws BootError if an address, a network or a port is invalid.
   */
  constructor(
    allow: readonly string[],
    { callbackPorts = [], egressProxy, resolve = resolveByHost }: PolicyOptions = {},
  ) {
    this.#addresses = new Addresses(allow);
    this.#ports = callbackPorts.map(readPorts);
    this.#proxied = egressProxy !== undefined;
    this.#resolve = resolve;
  }

  /**
   * Checks a callback. Returns undefined if the callback is acceptable, and otherwise the reason, as advice to the
   * subscriber. A host name that cannot be resolved now is acceptable, because each connection is checked again.
   */
  async refusal(callback: string): Promise<string | undefined> {
    if (callback.length > MAX_URL_LENGTH) return `the URL is longer than ${MAX_URL_LENGTH} characters`;
    const url = parseUrl(callback);
    if (url === null || /[\s\p{Cc}]/u.test(callback)) return 'it is not a URL; write https://host/path';
    if (url.username !== '' || url.password !== '')
      return 'leave credentials out of the URL; send the user name as uuid';
    if (url.protocol !== 'https:' && url.protocol !== 'http:')
      return `it must begin with https://${this.#addresses.anyAllowed ? ' or http://' : ''}, not ${url.protocol}`;
    if (url.protocol === 'http:' && !this.#addresses.anyAllowed)
      return `${HTTPS_UNLESS_ALLOWED}, which lists none${localAdvice(bare(url.hostname))}`;
    const refused = this.refusalUnresolved(url);
    if (refused !== undefined || this.#proxied || isIP(bare(url.hostname))) return refused;
    return within(RESOLVE_WAIT_MS, this.#refusalResolved(url));
  }

  #portsWritten(): string {
    return this.#ports.map(([first, last]) => (first === last ? first : `${first}-${last}`)).join(', ');
  }

  /**
   * Returns why the port, the IP address or the protocol of a URL is refused, or undefined if they are acceptable. A
   * host name is not looked up.
   */
  refusalUnresolved({ protocol, hostname, port }: Target): string | undefined {
    const number = Number(port || (protocol === 'https:' ? 443 : 80));
    if (this.#ports.length > 0 && !this.#ports.some(([first, last]) => number >= first && number <= last)) {
      const needsHttps =
        protocol === 'http:' &&
        port === '' &&
        !LOCAL_HOST.test(bare(hostname)) &&
        this.refusalUnresolved({ protocol: 'https:', hostname, port }) === undefined;
      const advice = needsHttps
        ? 'use https, whose port is 443'
        : 'use one of these, or have the operator add it';
      return `its port is ${number}, which is not one of ROUTEMASTER_CALLBACK_PORTS (${this.#portsWritten()}); ${advice}`;
    }
    const host = bare(hostname);
    if (isIP(host)) return this.#refusalOf(protocol, host);
    if (this.#proxied && protocol === 'http:')
      return 'it must begin with https://; plain http through the proxy is only for addresses, not names';
    return undefined;
  }

  /**
   * Resolves with those addresses of a host to which the bus may connect. Throws CallbackRefused if the bus may connect
   * to none of them. Throws another error if the host has no address, or its name cannot be resolved.
   */
  async addresses(protocol: string, hostname: string): Promise<string[]> {
    const found = await this.#resolve(hostname);
    if (found.length === 0) throw new Error('the host has no address');
    const refusals = found.map((each) => this.#refusalOf(protocol, each));
    const admitted = found.filter((_, index) => refusals[index] === undefined);
    if (admitted.length > 0) return admitted;
    throw new CallbackRefused(refusals[0] ?? '');
  }

  #refusalResolved({ protocol, hostname }: Target): Promise<string | undefined> {
    return this.addresses(protocol, hostname).then(
      () => undefined,
      (error) => (error instanceof CallbackRefused ? error.advice : undefined),
    );
  }

  /** Says why the bus may not connect to an address. Does not name the address, which may be internal. */
  #refusalOf(protocol: string, address: string): string | undefined {
    const addressClass = this.#addresses.classOf(address);
    if (isRefused(addressClass) && protocol === 'https:')
      return (
        `its host is at an address that is not public (${addressClass}); ` +
        'use another, or have the operator add it to ROUTEMASTER_CALLBACK_ALLOW'
      );
    if (addressClass !== 'allowed' && protocol !== 'https:')
      return HTTPS_UNLESS_ALLOWED + (addressClass === 'loopback' ? localAdvice(address) : '');
    return undefined;
  }
}

/**
 * If `host` is the machine of the bus, returns advice to add its address to the setting that allows callbacks there.
 * Otherwise returns an empty text.
 */
function localAdvice(host: string): string {
  if (!LOCAL_HOST.test(host)) return '';
  return `; to receive on the machine of the bus, as in development, add ${isIP(host) ? host : '127.0.0.1'} to it`;
}

/** Resolves a name with /etc/hosts and DNS, as other programs of this host do. */
async function resolveByHost(hostname: string): Promise<string[]> {
  const found = await lookup(hostname, { all: true });
  return found.map(({ address }) => address);
}

function bare(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

function readPorts(entry: string): PortRange {
  const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(entry) ?? [];
  const range: PortRange = [Number(first), Number(last)];
  if (!(range[0] >= 1 && range[0] <= range[1] && range[1] <= 65_535)) {
    throw new BootError(
      `ROUTEMASTER_CALLBACK_PORTS has ${entry}, which is neither a port nor a range like 8000-8999`,
    );
  }
  return range;
}
