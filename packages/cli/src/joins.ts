import type { Calls } from '@routemaster/client';
import type { Bus } from './bus.ts';
import { type Call, collect } from './command.ts';
import { remove } from './ending.ts';
import { members, table, timeOf } from './tables.ts';
import { asked, putNamed } from './whose.ts';

export type Join = Calls['GET /joins']['answer'][number];

export async function listJoins(call: Call): Promise<void> {
  const joins = await collect(call.connect().joins());
  const rows = joins.map((join) => {
    const { name, client, by, then, open, completed, expired, unkeyed, events, dead_letters, dropped } = join;
    const counts = [open, completed, expired, unkeyed, events.queued, dead_letters.events, dropped];
    return [name, client, sourcesOf(join), by, then.topic, ...counts];
  });
  const heads = ['NAME', 'CLIENT', 'SOURCES', 'BY', 'THEN', 'OPEN', 'COMPLETED', 'EXPIRED', 'UNKEYED'];
  call.print(joins, table([...heads, 'QUEUED', 'DEAD', 'DROPPED'], rows));
}

/** Shows a join and its oldest open keys. Prints a note on stderr if there are more, or if no event has had a key. */
export async function showJoin(call: Call): Promise<void> {
  const [name = ''] = call.args;
  const bus = call.connect();
  const join = await asked(call, bus, 'join', (owner) => bus.join(name, owner));
  const { keys, ...record } = join;
  const rows = keys.map(({ key, since, expires_at, counts, events }) => {
    return [key, timeOf(since), timeOf(expires_at), counts, events.join(' ')];
  });
  const heads = ['KEY', 'SINCE', 'EXPIRES AT', 'COUNTS', 'EVENTS'];
  call.print(join, [...members(record), ...(rows.length === 0 ? [] : ['', ...table(heads, rows)])]);
  if (keys.length < join.open) call.note(`these are the oldest ${keys.length} of ${join.open} open keys`);
  const keyed = join.open + join.completed + join.expired;
  if (join.unkeyed > 0 && keyed === 0)
    call.note(`no event of its sources has had a key so far: is ${join.by} what they have in common?`);
}

export function putJoin(call: Call): Promise<void> {
  return putNamed(call, 'join', (bus, name, rules, owner) => bus.putJoin(name, rules, owner));
}

export async function deleteJoin(call: Call): Promise<void> {
  const [name = ''] = call.args;
  const bus = call.connect();
  const counts = async (quiet: Bus) => {
    const { open, events, dead_letters } = await asked(call, quiet, 'join', (owner) =>
      quiet.join(name, owner),
    );
    return { 'open key': open, 'queued event': events.queued, 'dead letter': dead_letters.batches };
  };
  await remove(call, `the join ${name}`, counts, () =>
    asked(call, bus, 'join', (owner) => bus.removeJoin(name, owner)),
  );
}

function sourcesOf({ sources }: Join): string {
  return sources.map(({ topic, count }) => (count === 1 ? topic : `${topic}*${count}`)).join(',');
}
