import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

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

/** Groups the addresses of one source: a host with one IPv6 address has at least 2^64 of them, alike in the first half. */
export function sourceOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  if (isIP(plain) !== 6) return plain;
  const [head = '', tail] = plain.toLowerCase().replace(/%.*$/, '').split('::');
  const [left, right] = [groups(head), groups(tail ?? '')];
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const all = [...left, ...Array.from({ length: zeros }, () => '0'), ...right];
  return all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':');
}

/** The groups of 16 bits; an address of IPv4 at the end makes two. */
function groups(text: string): string[] {
  return text
    .split(':')
    .flatMap((group) => (group === '' ? [] : group.includes('.') ? ['v4', 'v4'] : [group]));
}
