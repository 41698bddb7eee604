import { Clients } from '../authentication/client.ts';
import { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { createSender } from '../metrics/figure_sender.ts';
import { collectFigures } from '../metrics/figures.ts';
import type { Partition } from '../store/partition.ts';

/** The `monitor` job: sends all figures of the bus to the metric service, if there is one, tagged with `env` and `app`. */
export function monitorJob(store: Partition, config: Config, log: Log): () => Promise<void> {
  const send = createSender(config, store, log);
  const publicNames = new PublicNames(new Clients(store, config.clients));
  return async () => {
    if (!send) return;
    const figures = await collectFigures({ store, limits: config, publicNames, log });
    const bus = { env: config.environment, app: config.appName };
    await send(figures.map((figure) => ({ ...figure, tags: { ...figure.tags, ...bus } })));
  };
}
