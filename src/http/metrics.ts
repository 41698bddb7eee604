import { Router } from 'express';
import type { Authentication } from '../authentication/authentication.ts';
import type { PublicNames } from '../authentication/public_names.ts';
import type { Log } from '../log.ts';
import { Exposition } from '../metrics/exposition.ts';
import type { MemoryLimits } from '../store/memory.ts';
import type { Store } from '../store/store.ts';
import { onlyMethods } from './problems.ts';

export interface MetricsParts {
  authentication: Pick<Authentication, 'require'>;
  store: Store;
  config: MemoryLimits;
  publicNames: PublicNames;
  log: Log;
}

/** `/metrics`: the figures of the whole bus, and the process's own, as Prometheus reads them. */
export function metricsApi({ authentication, store, config, publicNames, log }: MetricsParts): Router {
  const exposition = new Exposition({ store, limits: config, publicNames, log });
  const router = Router({ strict: true, caseSensitive: true });
  router
    .route('/metrics')
    .get(authentication.require('client', 'root'), async (_request, response) => {
      const text = await exposition.text();
      response
        .writeHead(200, { 'Content-Type': exposition.contentType, 'Cache-Control': 'no-store' })
        .end(text);
    })
    .all(onlyMethods('GET'));
  return router;
}
