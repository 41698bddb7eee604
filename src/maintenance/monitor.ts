import { createSender } from '../metrics/figure_sender.ts';
import { collectFigures } from '../metrics/figures.ts';
import type { JobParts } from './job_parts.ts';

/** The `monitor` job: sends all figures of the bus to the metric service, if there is one, tagged with `env` and `app`. */
export function monitorJob(
  parts: Pick<JobParts, 'config' | 'partitions' | 'publicNames' | 'log'>,
): () => Promise<void> {
  const { config, partitions, publicNames, log } = parts;
  const send = createSender(config, partitions.control, log);
  return async () => {
    if (!send) return;
    const figures = await collectFigures({ partitions, limits: config, publicNames, log });
    const bus = { env: config.environment, app: config.appName };
    await send(figures.map((figure) => ({ ...figure, tags: { ...figure.tags, ...bus } })));
  };
}
