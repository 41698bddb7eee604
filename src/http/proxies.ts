import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * The routers that stand in front, each of which appends to `X-Forwarded-For` whom it was called by. What is further left was
 * written by the caller, who may write anything; without routers all of it was.
 */
export class Proxies {
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  /** The address that the outermost router was called from. */
  addressOf(request: IncomingMessage): string {
    const told = this.#told(request.headers['x-forwarded-for']);
    return told !== undefined && isIP(told) !== 0 ? told : (request.socket.remoteAddress ?? '');
  }

  /** TLS ends at a router, which says so in `X-Forwarded-Proto`. Some append to what the caller wrote there. */
  cameByHttps(request: IncomingMessage): boolean {
    return this.#told(request.headers['x-forwarded-proto']) === 'https';
  }

  #told(header: string | string[] | undefined): string | undefined {
    if (header === undefined || this.#count === 0) return undefined;
    const told = String(header).split(',');
    // A router that replaces the header leaves fewer than there are routers.
    return (told.at(-this.#count) ?? told[0])?.trim();
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
