import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { BootError } from '../errors.ts';

const LONGEST_URL = 2048;

/** Decides which callbacks the bus may call: https anywhere, plain http only to addresses that the operator allows. */
export class CallbackPolicy {
  readonly #allowed = new BlockList();
  readonly #any: boolean;

  /** `allow`: addresses and CIDRs. Throws BootError if one is neither. */
  constructor(allow: readonly string[]) {
    this.#any = allow.length > 0;
    for (const entry of allow) this.#allow(entry);
  }

  /** Why the callback is not acceptable, as advice to whoever sent it; undefined if it is. */
  async refusal(callback: string): Promise<string | undefined> {
    if (callback.length > LONGEST_URL) return `the URL is longer than ${LONGEST_URL} characters`;
    const url = URL.canParse(callback) ? new URL(callback) : undefined;
    if (url === undefined || /[\s\p{Cc}]/u.test(callback)) return 'it is not a URL; write https://host/path';
    if (url.username !== '' || url.password !== '')
      return 'leave credentials out of the URL; send the user name as uuid';
    if (url.protocol === 'https:') return undefined;
    if (url.protocol !== 'http:') return `it must begin with https://, and not ${url.protocol}`;
    if (!this.#any) return 'it must begin with https://';
    const addresses = await this.#addresses(url.hostname);
    if (addresses.length > 0 && addresses.every((address) => this.allowsHttpTo(address))) return undefined;
    return 'it must begin with https://; plain http is only for addresses in ROUTEMASTER_CALLBACK_ALLOW';
  }

  /** Whether plain http may go to this address. */
  allowsHttpTo(address: string): boolean {
    const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
    const version = isIP(plain);
    return version !== 0 && this.#allowed.check(plain, version === 6 ? 'ipv6' : 'ipv4');
  }

  async #addresses(hostname: string): Promise<string[]> {
    const literal = hostname.replace(/^\[(.*)\]$/, '$1');
    if (isIP(literal)) return [literal];
    try {
      return (await lookup(hostname, { all: true })).map(({ address }) => address);
    } catch {
      // A name that does not resolve now is like one that resolves to nothing we allow.
      return [];
    }
  }

  #allow(entry: string): void {
    const [address = '', bits, more] = entry.split('/');
    const version = isIP(address);
    const length =
      bits === undefined ? (version === 6 ? 128 : 32) : /^\d{1,3}$/.test(bits) ? Number(bits) : -1;
    if (version === 0 || more !== undefined || length < 0 || length > (version === 6 ? 128 : 32)) {
      throw new BootError(
        `ROUTEMASTER_CALLBACK_ALLOW has ${entry}, which is neither an address nor a CIDR like 10.0.0.0/8`,
      );
    }
    this.#allowed.addSubnet(address, length, version === 6 ? 'ipv6' : 'ipv4');
  }
}
