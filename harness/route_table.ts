import { readConfig } from '../src/config.ts';
import { type ApiParts, buildApi } from '../src/processes/api.ts';
import { type Compatibility, DIALECTS } from '../src/routing/dialect.ts';
import type { Route } from '../src/routing/route.ts';
import type { Partition } from '../src/store/partition.ts';
import { Partitions } from '../src/store/partitions.ts';

/** Returns the route table of the API, without a Redis. Only its handlers of the documentation may be called. */
export function routeTable(compatibility: Compatibility = 'none', env: Record<string, string> = {}): Route[] {
  return built(env).routesIn(DIALECTS[compatibility]);
}

/** Returns the routes of the console, without a Redis. None of their handlers may be called. */
export function pageTable(): Route[] {
  return built({}).pages;
}

function built(env: Record<string, string>) {
  const nothing: object = new Proxy(() => {}, { get: () => nothing });
  const config = readConfig({
    ...{ ROUTEMASTER_ROOT_KEY: 'r', ROUTEMASTER_REDIS_URL: 'redis://localhost' },
    ...env,
  });
  const partitions = new Partitions(nothing as Partition);
  const parts = { config, partitions, recorder: nothing, log: nothing } as ApiParts;
  return buildApi(parts);
}
