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
 * The routers (proxies) in front of this process. Each one appends the address of its caller to `X-Forwarded-For`. So
 * with n routers, the last n entries can be trusted. The caller may have written the entries before them.
 */
export class Proxies {
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  /**
   * Returns the IP address of the caller: what the outermost router has written to `X-Forwarded-For`. Without routers,
   * or if that is no IP address, returns the address of the connection.
   */
  addressOf(request: IncomingMessage): string {
    const written = this.#writtenByRouter(request.headers['x-forwarded-for']) ?? '';
    const [, v6, v4] = WITH_PORT.exec(written) ?? [];
    const address = v6 ?? v4 ?? written;
    return withoutMapping(isIP(address) === 0 ? (request.socket.remoteAddress ?? '') : address);
  }

  /**
   * True if the caller used https. The router that ends TLS writes `X-Forwarded-Proto`, and only its entry counts,
   * because the caller may have sent others.
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
   * Returns the entry of the outermost router in a header, or undefined if there is none. `header` is the value of
   * `X-Forwarded-For` or `X-Forwarded-Proto`.
   */
  #writtenByRouter(header: string | string[] | undefined): string | undefined {
    if (header === undefined || this.#count === 0) return undefined;
    const entries = String(header).split(',');
    // A router that replaces the header, instead of appending to it, leaves fewer entries than there are routers. The
    // first entry is used then.
    return (entries.at(-this.#count) ?? entries[0])?.trim();
  }
}

/** Returns the IPv4 address in an IPv6 address such as `::ffff:192.0.2.1`. Other text is returned unchanged. */
function withoutMapping(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/**
 * Returns the text under which requests from an address are counted. For an IPv6 address this is its first half,
 * because one user has at least 2^64 addresses with the same first half.
 */
export function sourceOf(address: string): string {
  if (isIP(address) !== 6) return address;
  // ipaddr.js cannot read the zone of some addresses, such as `fe80::1%br-lan`. So the zone is cut off.
  const parsed = ipaddr.process(address.replace(/%.*/, ''));
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  return parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':');
}
