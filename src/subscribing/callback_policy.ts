import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { BootError } from '../errors.ts';
import { Addresses, isRefused } from './addresses.ts';

const LONGEST_URL = 2048;

/** How long a subscription waits for a name to be resolved. */
const RESOLVE_WAIT_MS = 2000;

/** The addresses of a host. Rejects if it has none, or that is not known. */
export type Resolve = (hostname: string) => Promise<string[]>;

export interface PolicyOptions {
  /** The only ports that callbacks may have, such as `443` and `8000-8999`; any if none is given. */
  callbackPorts?: readonly string[];
  /** Through which deliveries go, and which resolves their names then. */
  egressProxy?: string | undefined;
  resolve?: Resolve;
}

type PortRange = [first: number, last: number];

/** Where a connection is to go; the hostname as in a URL, or without its brackets. */
export interface Target {
  protocol: string;
  hostname: string;
  /** Empty for that of the protocol. */
  port: string;
}

/** The callback leads where the bus does not go. */
export class CallbackRefused extends Error {
  override readonly name = 'CallbackRefused';
  /** Why, and what to change. */
  readonly advice: string;

  constructor(advice: string) {
    super(`refused to connect: ${advice}`);
    this.advice = advice;
  }
}

/**
 * Decides which callbacks the bus may call: https to public addresses, https and plain http to those that the operator
 * allows. Subscriptions ask by `refusal`, and every connection by `addresses`: what a name resolved to has no bearing on the next.
 */
export class CallbackPolicy {
  readonly #addresses: Addresses;
  readonly #ports: PortRange[];
  readonly #proxied: boolean;
  readonly #resolve: Resolve;

  /** `allow`: addresses and CIDRs. Throws BootError if one is neither, or a port is none. */
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
   * Why the callback is not acceptable, as advice to whoever sent it; undefined if it is, or if its name cannot be resolved
   * now: it may be later, and each connection is checked.
   */
  async refusal(callback: string): Promise<string | undefined> {
    if (callback.length > LONGEST_URL) return `the URL is longer than ${LONGEST_URL} characters`;
    const url = URL.canParse(callback) ? new URL(callback) : undefined;
    if (url === undefined || /[\s\p{Cc}]/u.test(callback)) return 'it is not a URL; write https://host/path';
    if (url.username !== '' || url.password !== '')
      return 'leave credentials out of the URL; send the user name as uuid';
    if (url.protocol !== 'https:' && url.protocol !== 'http:')
      return `it must begin with https://, and not ${url.protocol}`;
    if (url.protocol === 'http:' && !this.#addresses.anyAllowed)
      return 'it must begin with https://; plain http is only for addresses in ROUTEMASTER_CALLBACK_ALLOW, which lists none';
    const refused = this.refusalUnresolved(url);
    if (refused !== undefined || this.#proxied || isIP(bare(url.hostname))) return refused;
    const timer = Promise.withResolvers<undefined>();
    const timeout = setTimeout(() => timer.resolve(undefined), RESOLVE_WAIT_MS);
    try {
      return await Promise.race([this.#refusalOfName(url), timer.promise]);
    } finally {
      clearTimeout(timeout);
    }
  }

  /** The same for a target by what is known without resolving its name. */
  refusalUnresolved({ protocol, hostname, port }: Target): string | undefined {
    const number = Number(port || (protocol === 'https:' ? 443 : 80));
    if (this.#ports.length > 0 && !this.#ports.some(([first, last]) => number >= first && number <= last))
      return `its port is ${number}, which is not one of ROUTEMASTER_CALLBACK_PORTS`;
    const host = bare(hostname);
    if (isIP(host)) return this.#refusalOf(protocol, [host]);
    if (this.#proxied && protocol === 'http:')
      return 'it must begin with https://; plain http through the proxy is only for addresses, not names';
    return undefined;
  }

  /**
   * Those addresses of a host that a connection by this protocol may go to, at least one; resolved anew at each call.
   * Throws CallbackRefused if it has others only, and the resolver's error if it is not known.
   */
  async addresses(protocol: string, hostname: string): Promise<string[]> {
    const found = await this.#resolve(hostname);
    if (found.length === 0) throw new Error('its host has no address');
    const admitted = found.filter((each) => this.#refusalOf(protocol, [each]) === undefined);
    if (admitted.length > 0) return admitted;
    throw new CallbackRefused(this.#refusalOf(protocol, found) ?? '');
  }

  async #refusalOfName({ protocol, hostname }: Target): Promise<string | undefined> {
    try {
      await this.addresses(protocol, hostname);
      return undefined;
    } catch (error) {
      return error instanceof CallbackRefused ? error.advice : undefined;
    }
  }

  /** By the first address that is refused, which is not told: the names of our network are nobody's business. */
  #refusalOf(protocol: string, addresses: readonly string[]): string | undefined {
    for (const address of addresses) {
      const standing = this.#addresses.standing(address);
      if (isRefused(standing) && protocol === 'https:')
        return `its host is at an address that is not public (${standing}); use another, or have the operator add it to ROUTEMASTER_CALLBACK_ALLOW`;
      if (standing !== 'allowed' && protocol !== 'https:')
        return 'it must begin with https://; plain http is only for addresses in ROUTEMASTER_CALLBACK_ALLOW';
    }
    return undefined;
  }
}

/** As every program of this host does: /etc/hosts, then DNS. */
async function resolveByHost(hostname: string): Promise<string[]> {
  const found = await lookup(hostname, { all: true });
  return found.map(({ address }) => address);
}

/** An IPv6 address stands in brackets in a URL. */
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
