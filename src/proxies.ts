import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

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

/** Whom an address stands for: whoever has one address of IPv6 has at least 2^64 of them, alike in the first half. */
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
