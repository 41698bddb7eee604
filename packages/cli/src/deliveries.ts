import type { Calls } from '@routemaster/client';
import { listedByTokenOrName } from './client_names.ts';
import { type Call, newest, textOption, timeOption } from './command.ts';
import { batchLines, table, timeOf } from './tables.ts';

/** The order in which the fields of a batch are shown. The bus's own order depends on the state of the batch. */
const SHOWN_FIRST = [
  ...['id', 'subscriber', 'join', 'state', 'reason', 'waits_for', 'next_attempt_at'],
  ...['opened_at', 'closed_at', 'first_attempt_at', 'last_attempt_at', 'ended_at'],
  ...['attempt_count', 'event_count', 'bytes'],
];

type State = Calls['GET /deliveries']['query']['state'];

export async function listDeliveries(call: Call): Promise<void> {
  const filter = {
    join: textOption(call, 'join'),
    // Not checked here: the bus refuses an unknown state with an error that lists all states.
    state: textOption(call, 'state') as State,
    since: timeOption(call, 'since'),
    until: timeOption(call, 'until'),
  };
  const bus = call.connect();
  const deliveries = await listedByTokenOrName(call, bus, textOption(call, 'subscriber'), (subscriber) =>
    newest(call, (page) => bus.deliveries({ ...filter, subscriber, ...page })),
  );
  if (deliveries.length === 0) call.note('nothing matches');
  const rows = deliveries.map((each) => {
    const { id, subscriber, join, state, event_count, attempt_count, opened_at, ended_at } = each;
    const times = [timeOf(opened_at), ended_at === null ? null : timeOf(ended_at)];
    const reason = each.reason ?? each.attempts.at(-1)?.reason;
    return [id, subscriber, join, state, event_count, attempt_count, ...times, reason];
  });
  const heads = [
    ...['ID', 'SUBSCRIBER', 'JOIN', 'STATE', 'EVENTS', 'ATTEMPTS'],
    ...['OPENED AT', 'ENDED AT', 'REASON'],
  ];
  call.print(deliveries, table(heads, rows));
}

export async function showDelivery(call: Call): Promise<void> {
  const [id = ''] = call.args;
  const delivery = await call.connect().delivery(id);
  const { attempts, events, ...record } = delivery;
  const entries = Object.entries(record).sort(([one], [other]) => placeOf(one) - placeOf(other));
  call.print(delivery, batchLines(Object.fromEntries(entries), attempts, events));
}

export async function retryDelivery(call: Call): Promise<void> {
  const [id = ''] = call.args;
  await call.connect().retryDelivery(id);
  call.print(undefined, ['retried 1']);
}

export async function buryDelivery(call: Call): Promise<void> {
  const [id = ''] = call.args;
  await call.connect().buryDelivery(id);
  call.print(undefined, [`it is a dead letter now; to deliver it after all: rtm dead retry ${id}`]);
}

function placeOf(field: string): number {
  const place = SHOWN_FIRST.indexOf(field);
  return place === -1 ? SHOWN_FIRST.length : place;
}
