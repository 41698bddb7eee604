import type { Calls } from '@routemaster/client';
import { type Call, collect } from './command.ts';
import { table, timeOf } from './tables.ts';
import { asked } from './whose.ts';

type Trigger = Calls['GET /triggers']['answer'][number];

export async function listTriggers(call: Call): Promise<void> {
  const triggers = await collect(call.connect().triggers());
  const rows = triggers.map((trigger) => {
    const { name, client, topic, schedule, fired, missed, last_error } = trigger;
    return [name, client, topic, scheduleOf(schedule), nextOf(trigger), fired, missed, last_error?.code];
  });
  const heads = ['NAME', 'CLIENT', 'TOPIC', 'SCHEDULE', 'NEXT AT', 'FIRED WHEN DUE', 'MISSED', 'LAST ERROR'];
  call.print(triggers, table(heads, rows));
}

export async function fireTrigger(call: Call): Promise<void> {
  const [name = ''] = call.args;
  const bus = call.connect();
  const answer = await asked(call, bus, 'trigger', (owner) => bus.fireTrigger(name, owner));
  call.print(answer, [answer.id]);
}

function scheduleOf({ cron, timezone, every, at }: Trigger['schedule']): string {
  if (cron !== undefined) return `${cron} ${timezone}`;
  return every === undefined ? `at ${timeOf(at)}` : `every ${every} ms`;
}

function nextOf({ paused, next_at }: Trigger): string | null {
  if (paused) return 'paused';
  return next_at === null ? null : timeOf(next_at);
}
