import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * The routers in front of this process. Each appends the address that called it to `X-Forwarded-For`. Further to the left stands
 * what the caller wrote, who may write anything; without routers the caller wrote all of it.
 */
export class Proxies {
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  /** The address that the outermost router was called from. */
  addressOf(request: IncomingMessage): string {
    const address = this.#writtenByRouter(request.headers['x-forwarded-for']) ?? '';
    return isIP(address) === 0 ? (request.socket.remoteAddress ?? '') : address;
  }

  /** TLS ends at a router, which writes `X-Forwarded-Proto`. Some routers append to what the caller wrote there. */
  cameByHttps(request: IncomingMessage): boolean {
    return this.#writtenByRouter(request.headers['x-forwarded-proto']) === 'https';
  }

  #writtenByRouter(header: string | string[] | undefined): string | undefined {
    if (header === undefined || this.#count === 0) return undefined;
    const entries = String(header).split(',');
    // A router that replaces the header leaves fewer than there are routers.
    return (entries.at(-this.#count) ?? entries[0])?.trim();
  }
}

/**
 * What an address is counted under: an IPv4 address, or the first half of an IPv6 one, as whoever has one IPv6 address has at
 * least 2^64 that begin alike. Text that is no address is returned as it is.
 */
export function sourceOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  return parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':');
}
