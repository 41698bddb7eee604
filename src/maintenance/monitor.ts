import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { Datadog } from '../metrics/datadog.ts';
import { collectFigures, type Figure } from '../metrics/figures.ts';
import { sumOf } from '../sum.ts';
import type { JobParts } from './job_parts.ts';

type Send = (figures: readonly Figure[]) => Promise<void>;

/** The `monitor` job: sends all figures of the bus to Datadog or the log, with the tags `env` and `app`. */
export function monitorJob(
  parts: Pick<JobParts, 'config' | 'partitions' | 'publicNames' | 'log'>,
): () => Promise<void> {
  const { config, partitions, publicNames, log } = parts;
  const send = senderOf(config, log);
  return async () => {
    if (!send) return;
    const figures = await collectFigures({ partitions, limits: config, publicNames, log });
    const bus = { env: config.environment, app: config.appName };
    await send(figures.map((figure) => ({ ...figure, tags: { ...figure.tags, ...bus } })));
  };
}

function senderOf(config: Config, log: Log): Send | undefined {
  if (config.metricService === 'prometheus') return undefined;
  if (config.metricService === 'print') return async (figures) => logFigures(figures, log);
  const agent = { host: config.dogstatsdHost, port: config.dogstatsdPort };
  const datadog = new Datadog(agent);
  return (figures) => datadog.send(figures);
}

/** Logs one line for each gauge, and one for each counter, with its sum over all partitions. */
function logFigures(figures: readonly Figure[], log: Log): void {
  const same = (figure: Figure) => (figure.kind === 'counter' ? figure.field.toString('latin1') : figure);
  for (const all of Map.groupBy(figures, same).values()) {
    const figure = all[0] as Figure;
    const value = sumOf(all.map((each) => each.value));
    log.info({ [figure.kind]: figure.name, value, tags: figure.tags }, 'figure');
  }
}
