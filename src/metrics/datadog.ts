import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import type { Adapter } from './adapter.ts';
import type { Tags } from './counter_field.ts';
import type { CounterFigure, Figure } from './figures.ts';
import type { Report, ReportedCounts } from './reported_counts.ts';

/** What fits in one Ethernet frame on any usual path: the size that Datadog's own clients keep to. */
const MOST_BYTES = 1432;
const LONGEST_TAG = 200;

/**
 * Sends figures to a DogStatsD agent over UDP: gauges as they are, counters as what was added since the last report.
 * Up to where that was is kept in Redis, so that any worker can go on, and noted after the sending: no count is left out,
 * and one goes twice only if the worker dies in between. The first report ever sends all that was counted before.
 */
export class Datadog implements Adapter {
  readonly #agent: { host: string; port: number };
  readonly #reported: Pick<ReportedCounts, 'read' | 'note'>;
  /** What was sent and is not known to be noted. */
  #sent: Report[] = [];

  constructor(agent: { host: string; port: number }, reported: Pick<ReportedCounts, 'read' | 'note'>) {
    this.#agent = agent;
    this.#reported = reported;
  }

  async send(figures: readonly Figure[]): Promise<void> {
    await this.#note();
    const before = await this.#reported.read();
    const lines: string[] = [];
    const reports: Report[] = [];
    for (const figure of figures) {
      if (figure.kind === 'gauge') lines.push(statsdLine(figure.name, figure.value, 'g', figure.tags));
      else {
        const report = reportOf(figure, before(figure.field));
        if (report.to === report.from) continue;
        lines.push(statsdLine(figure.name, added(report), 'c', figure.tags));
        reports.push(report);
      }
    }
    await transmit(datagrams(lines), this.#agent);
    this.#sent = reports;
    await this.#note();
  }

  async #note(): Promise<void> {
    await this.#reported.note(this.#sent);
    this.#sent = [];
  }
}

function reportOf({ field, value }: CounterFigure, from: number): Report {
  return { field, from, to: value };
}

/** A counter that is below what was sent has begun again from nothing. */
function added({ from, to }: Report): number {
  return to > from ? to - from : to;
}

/** A line of DogStatsD's protocol: `routemaster.jobs.count:3|g|#queue:main,status:instant`. */
export function statsdLine(name: string, value: number, type: 'c' | 'g', tags: Tags): string {
  const shown = Object.entries(tags).map(([tag, text]) => clean(`${tag}:${text}`));
  const suffix = shown.length > 0 ? `|#${shown.join(',')}` : '';
  return `routemaster.${name}:${value}|${type}${suffix}`;
}

/** Without what would end the tag, the line or the datagram. */
function clean(tag: string): string {
  return tag.replace(/[|,#\s\p{Cc}]/gu, '_').slice(0, LONGEST_TAG);
}

/** Lines in as few datagrams as they fit in; a line that is too long by itself goes alone. */
export function datagrams(lines: readonly string[]): Buffer[] {
  const all: Buffer[] = [];
  let open: string[] = [];
  let size = 0;
  for (const line of lines) {
    const bytes = Buffer.byteLength(line) + 1;
    if (size + bytes > MOST_BYTES + 1 && open.length > 0) {
      all.push(Buffer.from(open.join('\n')));
      [open, size] = [[], 0];
    }
    open.push(line);
    size += bytes;
  }
  if (open.length > 0) all.push(Buffer.from(open.join('\n')));
  return all;
}

/** One after the other, so as not to overrun the agent's buffer. Throws if the host has no address, or the network refuses. */
async function transmit(
  all: readonly Buffer[],
  { host, port }: { host: string; port: number },
): Promise<void> {
  const { address, family } = await lookup(host);
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    for (const datagram of all) await sendOne(socket, datagram, port, address);
  } finally {
    socket.close();
  }
}

function sendOne(socket: Socket, datagram: Buffer, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.send(datagram, port, address, (error) => (error ? reject(error) : resolve()));
  });
}
