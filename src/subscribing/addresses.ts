import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { BootError } from '../errors.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [base: Address, bits: number];

/** Whether callbacks may go to an address: `allowed` (by the operator), `public`, or the name of a forbidden range. */
type AddressClass = 'allowed' | 'public' | (string & {});

const network = (cidr: string): Network => ipaddr.parseCIDR(cidr);

/** The address at which Azure serves secrets to virtual machines. It is in a public range, but must be refused. */
const AZURE_METADATA = network('168.63.129.16/32');

/** The public part of IPv6. All other parts are reserved or local, or contain IPv4 addresses. */
const GLOBAL_UNICAST = network('2000::/3');

/**
 * IPv6 networks whose addresses contain one or two IPv4 addresses. A router may send a packet for such an IPv6 address
 * to an IPv4 address inside it, so the IPv4 addresses are checked too. `at` is the position of the first byte of an
 * IPv4 address. If there is a `mask`, each byte was XORed with it.
 */
const EMBEDDING: [network: Network, embedded: { at: number; mask?: number }[]][] = [
  // IPv4-mapped addresses, IPv4-compatible ones, and NAT64 (RFC 6052).
  [network('::ffff:0:0/96'), [{ at: 12 }]],
  [network('::/96'), [{ at: 12 }]],
  [network('64:ff9b::/96'), [{ at: 12 }]],
  // 6to4 (RFC 3056).
  [network('2002::/16'), [{ at: 2 }]],
  // Teredo (RFC 4380): the IPv4 address of the Teredo server, then that of the Teredo client with all bits inverted.
  [network('2001::/32'), [{ at: 4 }, { at: 12, mask: 0xff }]],
];

/**
 * Matches bytes 8 to 11 (in hex) of an ISATAP address (RFC 5214). Bytes 12 to 15 are the IPv4 address to which an
 * ISATAP router sends the packets.
 */
const ISATAP = /^0[02]005efe$/;

/** Classifies addresses. Callbacks may go to public addresses, and to those that the operator allows. */
export class Addresses {
  readonly #allowed: Network[];

  /** `allow` has addresses and networks (CIDR). Throws BootError if an entry is neither. */
  constructor(allow: readonly string[]) {
    this.#allowed = allow.map(readNetwork);
  }

  get anyAllowed(): boolean {
    return this.#allowed.length > 0;
  }

  /** Classifies an IP address, in any notation that resolvers and URLs use. Any other text is `unknown`. */
  classOf(text: string): AddressClass {
    return isIP(text) === 0 ? 'unknown' : this.#classOf(parsed(text));
  }

  #classOf(address: Address): AddressClass {
    if (this.#allowed.some((each) => isIn(address, each))) return 'allowed';
    const range = address.range();
    if (address instanceof ipaddr.IPv6 && range !== 'loopback') {
      const inner = embeddedIn(address)?.map((each) => this.#classOf(each));
      if (inner) return inner.find(isRefused) ?? (inner.includes('public') ? 'public' : 'allowed');
      const tunnelled = this.#classOfIsatap(address);
      if (isRefused(tunnelled)) return tunnelled;
      if (range === 'unicast' && !isIn(address, GLOBAL_UNICAST)) return 'reserved';
    }
    if (isIn(address, AZURE_METADATA)) return 'metadata';
    return range === 'unicast' ? 'public' : words(range);
  }

  /**
   * Classifies the IPv4 address inside an ISATAP address. Returns `public` for any other address, because there is no
   * IPv4 address to refuse.
   */
  #classOfIsatap(address: ipaddr.IPv6): AddressClass {
    const bytes = Buffer.from(address.toByteArray());
    if (!ISATAP.test(bytes.toString('hex', 8, 12))) return 'public';
    return this.#classOf(new ipaddr.IPv4([...bytes.subarray(12)]));
  }
}

export function isRefused(addressClass: AddressClass): boolean {
  return addressClass !== 'public' && addressClass !== 'allowed';
}

function embeddedIn(address: ipaddr.IPv6): ipaddr.IPv4[] | undefined {
  const [, places] = EMBEDDING.find(([each]) => isIn(address, each)) ?? [];
  const bytes = address.toByteArray();
  return places?.map(
    ({ at, mask = 0 }) => new ipaddr.IPv4(bytes.slice(at, at + 4).map((byte) => byte ^ mask)),
  );
}

function isIn(address: Address, [base, bits]: Network): boolean {
  return address.kind() === base.kind() && address.match(base, bits);
}

function readNetwork(entry: string): Network {
  const [address = '', bits, more] = entry.split('/');
  const maxBits = isIP(address) === 6 ? 128 : 32;
  const length = bits === undefined ? maxBits : /^\d{1,3}$/.test(bits) ? Number(bits) : -1;
  // `isIP` refuses 10.1, although ipaddr.js would read it as 10.0.0.1: in a setting, 10.1 is probably a mistake.
  if (isIP(address) === 0 || more !== undefined || length < 0 || length > maxBits) {
    throw new BootError(
      `ROUTEMASTER_CALLBACK_ALLOW has ${entry}, which is neither an address nor a CIDR like 10.0.0.0/8`,
    );
  }
  return [parsed(address), length];
}

/** Parses an IP address without its zone. ipaddr.js cannot read some zones, such as that of `fe80::1%br-lan`. */
function parsed(address: string): Address {
  return ipaddr.parse(address.replace(/%.*/, ''));
}

/** Turns a name in camelCase, such as `linkLocal`, into words with hyphens: `link-local`. */
function words(range: string): string {
  return range.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
