import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { Datadog } from '../metrics/datadog.ts';
import { collectFigures, type Figure } from '../metrics/figures.ts';
import type { Partition } from '../store/partition.ts';
import type { JobParts } from './job_parts.ts';

type Send = (figures: readonly Figure[]) => Promise<void>;

/** The `monitor` job: sends all figures of the bus to the metric service, tagged with `env` and `app`. */
export function monitorJob(
  parts: Pick<JobParts, 'config' | 'partitions' | 'publicNames' | 'log'>,
): () => Promise<void> {
  const { config, partitions, publicNames, log } = parts;
  const send = senderOf(config, partitions.control, log);
  return async () => {
    if (!send) return;
    const figures = await collectFigures({ partitions, limits: config, publicNames, log });
    const bus = { env: config.environment, app: config.appName };
    await send(figures.map((figure) => ({ ...figure, tags: { ...figure.tags, ...bus } })));
  };
}

/** Returns a function that sends figures; undefined for Prometheus, which scrapes `/metrics` instead. */
function senderOf(config: Config, control: Partition, log: Log): Send | undefined {
  if (config.metricService === 'prometheus') return undefined;
  if (config.metricService === 'print') return async (figures) => logFigures(figures, log);
  const agent = { host: config.dogstatsdHost, port: config.dogstatsdPort };
  const datadog = new Datadog(agent, control);
  return (figures) => datadog.send(figures);
}

/** Logs one line per figure. A counter's line has its total. */
function logFigures(figures: readonly Figure[], log: Log): void {
  for (const { kind, name, value, tags } of figures) log.info({ [kind]: name, value, tags }, 'figure');
}
