import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Maximum characters of `Host`: those of a name of DNS, a colon and a port. */
const MAX_HOST = 259;
/** Matches a name or an IPv4 address, or an IPv6 address in brackets, with or without a port. */
const HOST = /^([a-z\d]([a-z\d.-]*[a-z\d])?|\[[\da-f:.]+\])(:\d{1,5})?$/i;
/** Matches an address with a port, as some routers write it. An IPv6 address is in brackets then. */
const WITH_PORT = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d+)?$/;

/**
 * The routers (proxies) in front of this process. Each router appends the address of its caller to `X-Forwarded-For`.
 * So with n routers, the last n entries can be trusted. The entries before them come from the caller and prove nothing.
 */
export class Proxies {
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  /**
   * Returns the IP address of the caller. With routers, this is the address that the outermost router has written to
   * `X-Forwarded-For`. Without routers, or if that entry is no IP address, it is the address of the connection.
   */
  addressOf(request: IncomingMessage): string {
    const written = this.#writtenByRouter(request.headers['x-forwarded-for']) ?? '';
    const [, v6, v4] = WITH_PORT.exec(written) ?? [];
    const address = v6 ?? v4 ?? written;
    return withoutMapping(isIP(address) === 0 ? (request.socket.remoteAddress ?? '') : address);
  }

  /**
   * True if the caller used https. The router that ends TLS writes `X-Forwarded-Proto`. Some routers append to what the
   * caller sent, so only an entry that a router has written counts.
   */
  cameByHttps(request: IncomingMessage): boolean {
    return this.#writtenByRouter(request.headers['x-forwarded-proto']) === 'https';
  }

  /**
   * Returns the scheme and host by which the caller reaches the bus, such as `https://bus.example.com`. The caller can
   * send any `Host`, so the result is undefined unless it is a name or an address, with or without a port.
   */
  originOf(request: IncomingMessage): string | undefined {
    const { host = '' } = request.headers;
    if (host.length > MAX_HOST || !HOST.test(host)) return undefined;
    return `${this.cameByHttps(request) ? 'https' : 'http'}://${host.toLowerCase()}`;
  }

  /**
   * Returns the entry that the outermost router has written to a header, or undefined if there is none. `header` is the
   * value of `X-Forwarded-For` or `X-Forwarded-Proto`.
   */
  #writtenByRouter(header: string | string[] | undefined): string | undefined {
    if (header === undefined || this.#count === 0) return undefined;
    const entries = String(header).split(',');
    // Usually each router appends one entry. A router that replaces the header instead leaves fewer entries than there
    // are routers. The first entry is used then.
    return (entries.at(-this.#count) ?? entries[0])?.trim();
  }
}

/** Returns the IPv4 address in an IPv6 address such as `::ffff:192.0.2.1`. Returns any other text unchanged. */
function withoutMapping(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/**
 * Returns the text under which requests from an address are counted. Of an IPv6 address, this is only the first half,
 * because one user has at least 2^64 addresses with the same first half. Other text is returned unchanged.
 */
export function sourceOf(address: string): string {
  if (isIP(address) !== 6) return address;
  // The zone is left out. ipaddr.js cannot read one such as that of `fe80::1%br-lan`.
  const parsed = ipaddr.process(address.replace(/%.*/, ''));
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  return parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':');
}
