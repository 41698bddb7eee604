import { Authentication } from '../../src/authentication/authentication.ts';
import type { ClientDirectory } from '../../src/authentication/client_directory.ts';
import { FailedLogins } from '../../src/authentication/failed_logins.ts';
import { NonceKeys } from '../../src/authentication/nonce_keys.ts';
import { NonceUses } from '../../src/authentication/nonce_uses.ts';
import { Nonces } from '../../src/authentication/nonces.ts';
import type { FailureReason } from '../../src/authentication/verdict.ts';
import type { Log } from '../../src/log.ts';
import { Proxies } from '../../src/routing/proxies.ts';
import type { Partition } from '../../src/store/partition.ts';

export interface AuthenticationParts {
  rootKey: string;
  clients: ClientDirectory;
  log: Log;
  store: Pick<Partition, 'run' | 'command'>;
  proxies?: number;
  md5?: boolean;
  /** Called with each failure. */
  failed?: (reason: FailureReason | 'slowed') => void;
}

/** Makes authentication with the parts that the web process gives it. */
export function buildAuthentication(parts: AuthenticationParts): Authentication {
  const { rootKey, clients, log, proxies = 0, md5 = true, failed = () => {} } = parts;
  const store = parts.store as Partition;
  const recorder = { authenticationFailed: failed, authenticationSlowed: () => failed('slowed') };
  return new Authentication({
    ...{ rootKeys: [rootKey], clients, md5, log },
    nonces: new Nonces(new NonceKeys(store), new NonceUses(store)),
    failures: new FailedLogins(store, log),
    recorder,
    proxies: new Proxies(proxies),
  });
}
