import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import { Clients } from './client.ts';
import { NameKey } from './name_key.ts';
import { PublicNames } from './public_names.ts';

/**
 * Warns of clients without a secret whose token is shorter than production demands: those of a bus that was
 * taken over, and of ROUTEMASTER_CLIENTS. They still work. Throws as Partition does.
 */
export async function warnOfShortTokens(
  { clients: fixed, minTokenLength }: Pick<Config, 'clients' | 'minTokenLength'>,
  control: Partition,
  log: Log,
): Promise<void> {
  const clients = new Clients(control, fixed);
  const tokens = await clients.withoutSecret((token) => token.length < minTokenLength);
  if (tokens.length === 0) return;
  const nameOf = await new PublicNames(clients, new NameKey(control)).of(tokens);
  log.warn(
    { clients: tokens.map(nameOf) },
    `tokens of fewer than ${minTokenLength} characters can be guessed, and these clients have no secret; ` +
      'replace them with clients that have one',
  );
}
