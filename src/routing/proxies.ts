import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Maximum characters of `Host`: a DNS name, a colon and a port. */
const MAX_HOST = 259;
/** Matches a name or an IPv4 address, or an IPv6 address in brackets, with or without a port. */
const HOST = /^([a-z\d]([a-z\d.-]*[a-z\d])?|\[[\da-f:.]+\])(:\d{1,5})?$/i;
/** Matches an address with a port, as some routers write it. An IPv6 address is in brackets. */
const WITH_PORT = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d+)?$/;

/**
 * The routers (proxies) in front of this process. Each router appends the address of its own caller to
 * `X-Forwarded-For`. So with n routers, the last n entries of this header can be trusted. Earlier entries cannot,
 * because the caller may have written them.
 */
export class Proxies {
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  /**
   * Returns the IP address of the caller, which the outermost router has written to `X-Forwarded-For`. Returns the
   * address of the connection if there are no routers, or if the router's entry is not an IP address.
   */
  addressOf(request: IncomingMessage): string {
    const written = this.#writtenByRouter(request.headers['x-forwarded-for']) ?? '';
    const [, v6, v4] = WITH_PORT.exec(written) ?? [];
    const address = v6 ?? v4 ?? written;
    return withoutMapping(isIP(address) === 0 ? (request.socket.remoteAddress ?? '') : address);
  }

  /**
   * True if the caller used https. The router that ends TLS says so in `X-Forwarded-Proto`. Only that router's entry
   * counts, because the caller may have sent other entries.
   */
  cameByHttps(request: IncomingMessage): boolean {
    return this.#writtenByRouter(request.headers['x-forwarded-proto']) === 'https';
  }

  /**
   * Returns the scheme and host by which the caller reaches the bus, such as `https://bus.example.com`. Returns
   * undefined if `Host`, which the caller may choose, is no name or address.
   */
  originOf(request: IncomingMessage): string | undefined {
    const { host = '' } = request.headers;
    if (host.length > MAX_HOST || !HOST.test(host)) return undefined;
    return `${this.cameByHttps(request) ? 'https' : 'http'}://${host.toLowerCase()}`;
  }

  /**
   * Returns the entry that the outermost router (the one nearest to the caller) has added to a header, or undefined if
   * there is none. `header` is the value of `X-Forwarded-For` or `X-Forwarded-Proto`.
   */
  #writtenByRouter(header: string | string[] | undefined): string | undefined {
    if (header === undefined || this.#count === 0) return undefined;
    const entries = String(header).split(',');
    // A router may replace the header instead of appending to it. There are then fewer entries than routers, and the
    // first entry is used.
    return (entries.at(-this.#count) ?? entries[0])?.trim();
  }
}

/** Returns the IPv4 address in an IPv6 address such as `::ffff:192.0.2.1`. Other text is returned unchanged. */
function withoutMapping(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/**
 * Returns the text under which requests from an address are counted. For an IPv6 address, this text is the first half
 * of the address, because one user has at least 2^64 addresses with the same first half.
 */
export function sourceOf(address: string): string {
  if (isIP(address) !== 6) return address;
  // The zone is cut off, because ipaddr.js cannot read some zones, such as that of `fe80::1%br-lan`.
  const parsed = ipaddr.process(address.replace(/%.*/, ''));
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  return parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':');
}
