import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import { Datadog, ReportedCounts } from './datadog.ts';
import type { Figure } from './figures.ts';

/** Sends figures to a metric service. After an error, the next call also sends what the counters had grown by. */
export type SendFigures = (figures: readonly Figure[]) => Promise<void>;

/** The sender that `METRIC_COLLECTION_SERVICE` names; undefined for Prometheus, which scrapes `/metrics` instead. */
export function createSender(
  {
    metricService,
    dogstatsdHost,
    dogstatsdPort,
  }: Pick<Config, 'metricService' | 'dogstatsdHost' | 'dogstatsdPort'>,
  store: Partition,
  log: Log,
): SendFigures | undefined {
  if (metricService === 'print') return async (figures) => logFigures(figures, log);
  if (metricService === 'prometheus') return undefined;
  const datadog = new Datadog({ host: dogstatsdHost, port: dogstatsdPort }, new ReportedCounts(store));
  return (figures) => datadog.send(figures);
}

/** Logs one line per figure; counters as totals. */
function logFigures(figures: readonly Figure[], log: Log): void {
  for (const { kind, name, value, tags } of figures) log.info({ [kind]: name, value, tags }, 'figure');
}
