import { Clients } from '../authentication/client.ts';
import { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import { DONE, type JobHandler } from '../delivering/job_handler.ts';
import type { Log } from '../log.ts';
import { createAdapter } from '../metrics/adapters.ts';
import { collectFigures } from '../metrics/figures.ts';
import type { Store } from '../store/store.ts';

/** The `monitor` job: sends all figures of the bus to the metric service, if there is one, saying of which bus they are. */
export function monitorJob(store: Store, config: Config, log: Log): JobHandler {
  const adapter = createAdapter(config, store, log);
  const publicNames = new PublicNames(new Clients(store, config.clients));
  return async () => {
    if (!adapter) return DONE;
    const figures = await collectFigures({ store, limits: config, publicNames, log });
    const bus = { env: config.environment, app: config.appName };
    await adapter.send(figures.map((figure) => ({ ...figure, tags: { ...figure.tags, ...bus } })));
    return DONE;
  };
}
