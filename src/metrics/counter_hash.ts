import { decode, Encoder } from '@msgpack/msgpack';
import { chunksOf } from '../chunks.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { pairsOf } from '../store/replies.ts';

const FIELDS_PER_SCAN = 1000;
/** Number of counters that are decoded in one turn of the event loop. 500 take about 2 ms. */
const COUNTERS_PER_TURN = 500;
/** One encoder serves all fields, because making an encoder allocates 2 KiB and takes longer than encoding a field. */
const ENCODER = new Encoder();

export type Tags = Readonly<Record<string, string>>;

/** A counter of one partition, with its count since the bus was installed. The total is the sum over all partitions. */
export interface Count {
  name: string;
  tags: Tags;
  value: number;
  /** The counter's name and tags, packed by `packField`, or in another way if a Ruby Routemaster stored them. */
  field: Buffer;
  partition: Partition;
}

/** Returns the field of a counter in the hash `counters`: MessagePack `[name, [[tag, value], …]]`, sorted by tag. */
export function packField(name: string, tags: Tags): Buffer {
  const pairs = Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1));
  return Buffer.from(ENCODER.encode([name, pairs]));
}

export function unpackField(field: Buffer): { name: string; tags: Tags } | undefined {
  try {
    const [name, pairs] = decode(field) as [unknown, [unknown, unknown][]];
    return {
      name: text(name),
      tags: Object.fromEntries(pairs.map(([tag, value]) => [text(tag), text(value)])),
    };
  } catch {
    return undefined;
  }
}

/**
 * Returns a string as it is, and decodes bytes to a string. The Ruby Routemaster, whose counters this bus continues,
 * packed some strings as bytes. Throws TypeError for other values.
 */
function text(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  throw new TypeError('not text');
}

/**
 * Reads a hash of counters by several commands, because one command that reads a large hash would block Redis. Throws
 * StorageUnavailable.
 */
export async function readPacked(partition: Partition, name: 'counters' | 'counters_reported') {
  // The result is a Map, because HSCAN may return a field twice. `callBuffer` returns bytes; `hscan` would damage the
  // binary fields by decoding them as UTF-8.
  const counts = new Map<string, [field: Buffer, count: number]>();
  const scan = partition.scan(async (redis, keys, cursor) => {
    const reply = await redis.callBuffer('HSCAN', keys[name](), cursor, 'COUNT', FIELDS_PER_SCAN);
    const [next, flat] = reply as [Buffer, Buffer[]];
    return [next.toString(), flat];
  });
  for await (const flat of scan)
    for (const [field, count] of pairsOf(flat)) counts.set(field.toString('latin1'), [field, Number(count)]);
  return [...counts.values()];
}

/**
 * Reads all counters of the partitions that are not away; `away` has the other partitions. A counter of two partitions
 * comes twice, and its counts are not added up. Skips unreadable fields with a warning. Throws StorageUnavailable if
 * all partitions are away.
 */
export async function readCounts(
  partitions: Partitions,
  log: Log,
): Promise<{ counts: Count[]; away: Partition[] }> {
  const { found, away } = await partitions.reach((partition) => readCountsOf(partition, log));
  return { counts: found.flat(), away };
}

async function readCountsOf(partition: Partition, log: Log): Promise<Count[]> {
  // A Ruby Routemaster packed the same text in two ways, depending on its encoding: as MessagePack text or as bytes. So
  // one counter can have several fields, whose counts are added up.
  const counts = new Map<string, Count>();
  let unreadable = 0;
  const stored = (await readPacked(partition, 'counters').catch(partition.skip)) ?? [];
  for await (const chunk of chunksOf(stored, COUNTERS_PER_TURN))
    for (const [packed, value] of chunk) {
      const series = unpackField(packed);
      if (series && Number.isFinite(value)) add(counts, { ...series, value, partition });
      else unreadable++;
    }
  if (unreadable > 0) log.warn({ skipped: unreadable }, 'skipped unreadable fields of the counters hash');
  return [...counts.values()];
}

function add(counts: Map<string, Count>, count: Omit<Count, 'field'>): void {
  const field = packField(count.name, count.tags);
  const id = field.toString('latin1');
  const known = counts.get(id);
  if (known) known.value += count.value;
  else counts.set(id, { ...count, field });
}
