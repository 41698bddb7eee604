import { createSocket, type Socket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { slicesOf } from '../chunks.ts';
import { StorageUnavailable } from '../errors.ts';
import type { Arguments } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { readPacked, type Tags } from './counter_hash.ts';
import type { CounterFigure, Figure } from './figures.ts';
import { isTotalOfRemoved } from './series.ts';

/** Maximum size of a datagram, so that it fits into one Ethernet frame. Datadog's own clients use the same maximum. */
const MAX_DATAGRAM_BYTES = 1432;
const MAX_TAG_LENGTH = 200;

/** Maximum number of counters whose sent totals one script call stores. 1000 take Redis about 1 ms. */
const MAX_TOTALS_PER_CALL = 1000;

/** A counter's total that was last sent to Datadog (`to`), and the total that was sent before it (`from`). */
type SentTotal = Arguments<'report'>['reports'][number];

/** Returns the total of a counter's field that was last sent to Datadog, or 0 if none was sent. */
type Reported = (field: Buffer) => number;

/** Reads the totals that were last sent to Datadog. Throws StorageUnavailable. */
export async function readReported(partition: Partition): Promise<Reported> {
  const counts = new Map<string, number>();
  for (const [field, count] of await readPacked(partition, 'counters_reported'))
    counts.set(field.toString('latin1'), count);
  return (field) => counts.get(field.toString('latin1')) ?? 0;
}

/**
 * Stores totals that were sent to Datadog. Replaces the stored total of a counter only if it is still `from`, so a
 * repeated call changes nothing. Throws StorageUnavailable.
 */
export async function noteReported(partition: Partition, totals: readonly SentTotal[]): Promise<void> {
  for (const slice of slicesOf(totals, MAX_TOTALS_PER_CALL))
    await partition.run('report', { reports: slice });
}

/**
 * Sends figures to a DogStatsD agent over UDP. A gauge is sent as its value, and a counter as its growth since this or
 * another worker last sent it. The new totals are stored after the sending. If the worker dies before it has stored
 * them, the growth is sent twice, but it is never lost.
 */
export class Datadog {
  readonly #agent: { host: string; port: number };
  readonly #partitions: Partitions;
  /** Totals that were sent to Datadog, and must still be stored in their partition. */
  readonly #sent = new Map<Partition, SentTotal[]>();

  constructor(agent: { host: string; port: number }, partitions: Partitions) {
    this.#agent = agent;
    this.#partitions = partitions;
  }

  /** Sends the figures with which `collect` resolves. */
  async send(collect: () => Promise<readonly Figure[]>): Promise<void> {
    await this.#note();
    const { found } = await this.#partitions.reach(
      async (partition) => [partition, await readReported(partition)] as const,
    );
    const before = new Map(found);
    const figures = await collect();
    const lines: string[] = [];
    const sent: [Partition, SentTotal[]][] = [];
    const counters = figures.filter((figure) => figure.kind === 'counter');
    for (const [partition, its] of Map.groupBy(counters, (counter) => counter.partition)) {
      if (this.#sent.has(partition)) continue; // the totals sent last could not be stored yet
      const reported = before.get(partition);
      if (!reported) continue; // the partition was away
      const grown = grownOf(its, reported, await readReported(partition));
      lines.push(...grown.map(({ line }) => line));
      sent.push([partition, grown.map(({ sentTotal }) => sentTotal)]);
    }
    for (const { kind, name, value, tags } of figures)
      if (kind === 'gauge') lines.push(statsdLine(name, value, 'g', tags));
    await transmit(datagrams(lines), this.#agent);
    for (const [partition, totals] of sent) this.#sent.set(partition, totals);
    await this.#note();
  }

  async #note(): Promise<void> {
    for (const [partition, totals] of this.#sent) {
      try {
        await noteReported(partition, totals);
        this.#sent.delete(partition);
      } catch (error) {
        if (!(error instanceof StorageUnavailable)) throw error;
      }
    }
  }
}

/**
 * Returns, for each counter that has changed since it was last sent, the line to send and the total to store. `before`
 * and `after` give the totals last sent, as they were before and after the counters were read.
 *
 * When a topic or subscriber is removed, its counts are added to the counter of all removed ones (see
 * `isTotalOfRemoved`), and so are its totals last sent. If this happened between `before` and `after`, the values that
 * were read may not fit together. So a counter is left out until the next time if its total last sent has changed in
 * between.
 */
function grownOf(counters: readonly CounterFigure[], before: Reported, after: Reported) {
  return counters.flatMap(({ name, tags, value, field }) => {
    const from = after(field);
    if (value === from || from !== before(field)) return [];
    // If a total is below the last one that was sent, the counter began again from 0, so all of the total is growth.
    // But the counter of all removed topics or subscribers never begins again. If it is lower, some counts may not have
    // been added to it yet, so it is left out.
    if (value < from && isTotalOfRemoved(name, tags)) return [];
    const line = statsdLine(name, value > from ? value - from : value, 'c', tags);
    return { line, sentTotal: { field, from, to: value } };
  });
}

/** Returns a line of the DogStatsD protocol: `routemaster.jobs.count:3|g|#queue:main,status:instant`. */
export function statsdLine(name: string, value: number, type: 'c' | 'g', tags: Tags): string {
  const shown = Object.entries(tags).map(([tag, text]) => clean(`${tag}:${text}`));
  const suffix = shown.length > 0 ? `|#${shown.join(',')}` : '';
  return `routemaster.${name}:${value}|${type}${suffix}`;
}

/** Replaces the characters in a tag that would end the tag, the line or the datagram. */
function clean(tag: string): string {
  return tag.replace(/[|,#\s\p{Cc}]/gu, '_').slice(0, MAX_TAG_LENGTH);
}

/** Packs lines into datagrams, in order. A line that is longer than the maximum size of a datagram is sent alone. */
export function datagrams(lines: readonly string[]): Buffer[] {
  const all: string[] = [];
  for (const line of lines) {
    const longer = `${all.at(-1)}\n${line}`;
    if (all.length > 0 && Buffer.byteLength(longer) <= MAX_DATAGRAM_BYTES) all[all.length - 1] = longer;
    else all.push(line);
  }
  return all.map((text) => Buffer.from(text));
}

/** Sends the datagrams one after the other, so that the agent's buffer does not overflow. Throws if DNS fails. */
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
