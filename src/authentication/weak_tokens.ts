import type { Config } from '../config.ts';
import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import { Clients } from './client.ts';
import { NameKey } from './name_key.ts';
import { PublicNames } from './public_names.ts';

type ShortTokenConfig = Pick<Config, 'clients' | 'minTokenLength'>;

/** Throws BootError if a token of ROUTEMASTER_CLIENTS is shorter than `minTokenLength`. */
export function refuseShortTokens({ clients, minTokenLength }: ShortTokenConfig): void {
  const short = clients.filter((token) => token.length < minTokenLength);
  if (short.length === 0) return;
  throw new BootError(
    `${short.length} tokens of ROUTEMASTER_CLIENTS have fewer than ${minTokenLength} characters and can be guessed. ` +
      'Create these clients with POST /api_tokens, which gives each a secret, or choose longer tokens. ' +
      'ROUTEMASTER_COMPATIBILITY=routemaster accepts them, as a bus does that took over the Redis of a Ruby Routemaster.',
  );
}

/**
 * Warns of clients with a short token and no secret, which may come from a Ruby Routemaster. Throws StorageUnavailable.
 */
export async function warnOfShortTokens(
  { clients: fixed, minTokenLength }: ShortTokenConfig,
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
