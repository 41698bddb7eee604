import type { Calls } from '@routemaster/client';
import { listedByTokenOrName } from './client_names.ts';
import { type Call, newest, textOption, timeOption } from './command.ts';
import { table, timeOf } from './tables.ts';

type Action = Calls['GET /audit']['query']['action'];

export async function listAudit(call: Call): Promise<void> {
  const filter = {
    since: timeOption(call, 'since'),
    // Not checked here: the bus refuses an unknown action with an error that lists all actions.
    action: textOption(call, 'action') as Action,
    target: textOption(call, 'target'),
  };
  const bus = call.connect();
  const entries = await listedByTokenOrName(call, bus, textOption(call, 'client'), (client) =>
    newest(call, (page) => bus.audit({ ...filter, client, ...page })),
  );
  if (entries.length === 0) call.note('nothing matches');
  const rows = entries.map(({ at, role, client, action, target, status, code, subscriptions, address }) => {
    return [timeOf(at), role, client, action, target, status, code, subscriptions, address || null];
  });
  const heads = ['AT', 'ROLE', 'CLIENT', 'ACTION', 'TARGET', 'STATUS', 'CODE', 'ENDED', 'ADDRESS'];
  call.print(entries, table(heads, rows));
}
