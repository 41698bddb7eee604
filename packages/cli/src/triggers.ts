import type { Calls } from '@routemaster/client';
import { type Call, collect, Failure, textOption } from './command.ts';
import { table, timeOf } from './tables.ts';

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
  const client = textOption(call, 'client');
  const fired = call.connect().fireTrigger(name, { client });
  const answer = await fired.catch((error) => {
    if (client !== undefined || error.code !== 'bad_query') throw error;
    throw new Failure(error.code, 'root must say whose trigger it is: give --client TOKEN');
  });
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
