import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { Datadog } from '../metrics/datadog.ts';
import { collectFigures, type Figure } from '../metrics/figures.ts';
import type { Partitions } from '../store/partitions.ts';
import { sumOf } from '../sum.ts';
import type { JobParts } from './job_parts.ts';

type Send = (collect: () => Promise<readonly Figure[]>) => Promise<void>;

/** The `monitor` job: sends all figures of the bus to Datadog or the log, with the tags `env` and `app`. */
export function monitorJob(
  parts: Pick<JobParts, 'config' | 'partitions' | 'publicNames' | 'log'>,
): () => Promise<void> {
  const { config, partitions, publicNames, log } = parts;
  const send = senderOf(config, partitions, log);
  const bus = { env: config.environment, app: config.appName };
  const collect = async () => {
    const figures = await collectFigures({ partitions, limits: config, publicNames, log });
    return figures.map((figure) => ({ ...figure, tags: { ...figure.tags, ...bus } }));
  };
  return async () => send?.(collect);
}

function senderOf(config: Config, partitions: Partitions, log: Log): Send | undefined {
  if (config.metricService === 'prometheus') return undefined;
  if (config.metricService === 'print') return async (collect) => logFigures(await collect(), log);
  const agent = { host: config.dogstatsdHost, port: config.dogstatsdPort };
  const datadog = new Datadog(agent, partitions);
  return (collect) => datadog.send(collect);
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
