import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import { packField, type Tags, unpackField } from './counter_field.ts';

/** What the whole bus has counted of one thing, ever. */
export interface Count {
  name: string;
  tags: Tags;
  value: number;
  /** The packed name and tags: the same for the same thing at any time. */
  field: Buffer;
}

/** All counts in Redis. What cannot be read is passed over with a warning. Throws as Store does. */
export async function readCounts(store: Store, log: Log): Promise<Count[]> {
  // As bytes, and not by hgetall, which would make text of the packed fields.
  const reply = await store.command((redis, keys) => redis.callBuffer('HGETALL', keys.counters()));
  const flat = reply as Buffer[];
  const counts = new Map<string, Count>();
  let unreadable = 0;
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const series = unpackField(flat[i] as Buffer);
    const value = Number(flat[i + 1]);
    if (series && Number.isFinite(value)) add(counts, series, value);
    else unreadable++;
  }
  if (unreadable > 0)
    log.warn({ fields: unreadable }, 'some fields of the counters hash are no counters; passed over');
  return [...counts.values()];
}

/** The Ruby Routemaster may have packed the same name and tags in another way: they are one count. */
function add(counts: Map<string, Count>, { name, tags }: { name: string; tags: Tags }, value: number): void {
  const field = packField(name, tags);
  const id = field.toString('latin1');
  const known = counts.get(id);
  if (known) known.value += value;
  else counts.set(id, { name, tags, value, field });
}
