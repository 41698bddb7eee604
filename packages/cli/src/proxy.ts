import * as http from 'node:http';
import { Failure } from './command.ts';

/** The names of this machine. Requests to these hosts go through no proxy. */
const HERE = ['localhost', '127.0.0.1', '::1'];

/**
 * Sends all https requests of this process through the proxy of HTTPS_PROXY, except those to the hosts of NO_PROXY, as
 * curl does. HTTP_PROXY is ignored, because plain http is used only for a bus on this machine, and a proxy could read
 * the token. Does nothing if Node lacks `setGlobalProxyFromEnv` (before 24.14).
 */
export function useProxy(env: NodeJS.ProcessEnv): void {
  const given = env.https_proxy || env.HTTPS_PROXY;
  if (!given) return;
  const proxy = given.includes('://') ? given : `http://${given}`;
  const direct = [env.no_proxy || env.NO_PROXY, ...HERE].filter(Boolean).join(',');
  try {
    http.setGlobalProxyFromEnv?.({ HTTPS_PROXY: proxy, NO_PROXY: direct });
  } catch (cause) {
    throw new Failure('bad_proxy', 'HTTPS_PROXY is not the URL of a proxy, such as http://proxy:3128', {
      cause,
    });
  }
}
