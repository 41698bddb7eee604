import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import { Clients } from './client.ts';

/**
 * Warns if ROUTEMASTER_CLIENTS contains the token of a client that has a secret. Such a token is public, but the
 * setting admits everybody who sends it. Throws StorageUnavailable.
 */
export async function warnOfPublicTokens(
  { clients: fixed }: Pick<Config, 'clients'>,
  control: Partition,
  log: Log,
): Promise<void> {
  const stored = new Clients(control, []);
  const clients = await Promise.all(fixed.map((token) => stored.find(token)));
  const tokens = clients.flatMap((client) => (client?.ha1 ? client.token : []));
  if (tokens.length === 0) return;
  log.warn(
    { clients: tokens },
    'ROUTEMASTER_CLIENTS admits anybody as these clients, which have a secret: their tokens are public; take them out',
  );
}
