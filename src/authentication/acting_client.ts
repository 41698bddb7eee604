import { BusError } from '../errors.ts';
import type { ChangingCaller, ClientCaller } from '../routing/caller.ts';
import type { Clients } from './client.ts';
import { callerFor } from './credentials.ts';

/**
 * Returns the client for which the call acts: the caller itself or, if root calls, the client that `token` names.
 * Throws client_not_found.
 */
export async function actingClient(
  clients: Pick<Clients, 'find'>,
  caller: ChangingCaller,
  token: string,
): Promise<ClientCaller> {
  if (caller.role === 'client') return caller;
  const client = await clients.find(token);
  if (!client)
    throw new BusError('client_not_found', 'no client has this token', { members: { field: 'client' } });
  return callerFor(client);
}
