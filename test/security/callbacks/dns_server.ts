import { createSocket, type Socket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { isIPv4, isIPv6 } from 'node:net';
import type { Resolve } from '../../../src/subscribing/callback_policy.ts';

const TYPES = { A: 1, AAAA: 28 } as const;
const NAME_ERROR = 3;

/** A DNS server on a free UDP port of 127.0.0.1, which knows the hosts that a test gives it. */
export class DnsServer {
  readonly #socket: Socket = createSocket('udp4');
  readonly #hosts = new Map<string, string[][]>();
  /** The names of all questions, one for each A and each AAAA. */
  readonly asked: string[] = [];

  static async start(): Promise<DnsServer> {
    const server = new DnsServer();
    server.#socket.on('message', (query, { port, address }) =>
      server.#socket.send(server.#answer(query), port, address),
    );
    await once(server.#socket.bind(0, '127.0.0.1'), 'listening');
    return server;
  }

  /** Sets the host's addresses. Each question for A records takes the next list; the last list stays. */
  host(name: string, ...answers: string[][]): void {
    this.#hosts.set(name, answers);
  }

  /** Resolves names by this server alone. */
  get resolve(): Resolve {
    const resolver = new Resolver({ timeout: 5000, tries: 2 });
    resolver.setServers([`127.0.0.1:${this.#socket.address().port}`]);
    return async (hostname) => {
      const [four, six] = await Promise.allSettled([
        resolver.resolve4(hostname),
        resolver.resolve6(hostname),
      ]);
      const found = [four, six].flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
      if (found.length === 0 && four.status === 'rejected') throw four.reason;
      return found;
    };
  }

  stop(): void {
    this.#socket.close();
  }

  #answer(query: Buffer): Buffer {
    const { name, type, end } = readQuestion(query);
    this.asked.push(name);
    const answers = this.#hosts.get(name);
    const addresses = type === TYPES.A && answers && answers.length > 1 ? answers.shift() : answers?.[0];
    const records = (addresses ?? []).flatMap((address) => record(address, type) ?? []);
    const head = Buffer.from(query.subarray(0, 12));
    // Flags: an answer, recursion available. Then the counts of questions, answers, authorities and additional records.
    head.writeUInt16BE(0x8180 | (answers ? 0 : NAME_ERROR), 2);
    for (const [index, count] of [1, records.length, 0, 0].entries())
      head.writeUInt16BE(count, 4 + 2 * index);
    return Buffer.concat([head, query.subarray(12, end), ...records]);
  }
}

function readQuestion(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** Returns the record of an address; undefined if the type does not fit. Its name points to the question. */
function record(address: string, type: number): Buffer | undefined {
  if (type === TYPES.A ? !isIPv4(address) : type !== TYPES.AAAA || !isIPv6(address)) return undefined;
  const data = type === TYPES.A ? Buffer.from(address.split('.').map(Number)) : bytesOf(address);
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

/** Returns the bytes of an IPv6 address that is written in hexadecimal. */
function bytesOf(address: string): Buffer {
  const [left = '', right] = address.split('::');
  const words = (text: string) =>
    text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16));
  const before = words(left);
  const after = words(right ?? '');
  const all = [...before, ...Array(8 - before.length - after.length).fill(0), ...after];
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 0xff]));
}
