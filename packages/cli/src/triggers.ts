import type { Calls } from '@routemaster/client';
import { type Call, collect } from './command.ts';
import { members, table, timeOf } from './tables.ts';
import { asked, putNamed } from './whose.ts';

type Trigger = Calls['GET /triggers']['answer'][number];

export async function listTriggers(call: Call): Promise<void> {
  const triggers = await collect(call.connect().triggers());
  const rows = triggers.map((trigger) => {
    const { name, topic, schedule, fired, missed, last_error } = trigger;
    const times = [scheduleOf(schedule), nextOf(trigger)];
    return [name, ownerOf(call, trigger), topic, ...times, fired, missed, last_error?.code];
  });
  const heads = ['NAME', 'CLIENT', 'TOPIC', 'SCHEDULE', 'NEXT AT', 'FIRED WHEN DUE', 'MISSED', 'LAST ERROR'];
  call.print(triggers, table(heads, rows));
}

export async function showTrigger(call: Call): Promise<void> {
  const [given = ''] = call.args;
  const bus = call.connect();
  const trigger = await asked(call, bus, 'trigger', (owner) => bus.trigger(given, owner));
  const { name, client: _, ...rest } = trigger;
  call.print(trigger, members({ name, client: ownerOf(call, trigger), ...rest }));
}

export function putTrigger(call: Call): Promise<void> {
  return putNamed(call, 'trigger', (bus, name, trigger, owner) => bus.putTrigger(name, trigger, owner));
}

export async function deleteTrigger(call: Call): Promise<void> {
  const [name = ''] = call.args;
  const bus = call.connect();
  await asked(call, bus, 'trigger', (owner) => bus.removeTrigger(name, owner));
}

export async function fireTrigger(call: Call): Promise<void> {
  const [name = ''] = call.args;
  const bus = call.connect();
  const answer = await asked(call, bus, 'trigger', (owner) => bus.fireTrigger(name, owner));
  call.print(answer, [answer.id]);
}

/** Returns the token of the client that has the trigger. The bus leaves it out if the caller is this client. */
function ownerOf(call: Call, { client }: Trigger): string {
  return client ?? call.target().token;
}

function scheduleOf({ cron, timezone, every, at }: Trigger['schedule']): string {
  if (cron !== undefined) return `${cron} ${timezone}`;
  return every === undefined ? `at ${timeOf(at)}` : `every ${every} ms`;
}

function nextOf({ paused, next_at }: Trigger): string | null {
  if (paused) return 'paused';
  return next_at === null ? null : timeOf(next_at);
}
