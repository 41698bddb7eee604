import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Store } from '../store/store.ts';
import type { Adapter } from './adapter.ts';
import { Datadog } from './datadog.ts';
import { Print } from './print.ts';
import { ReportedCounts } from './reported_counts.ts';

/** The adapter that `METRIC_COLLECTION_SERVICE` names; none for Prometheus, which comes for the figures itself. */
export function createAdapter(
  {
    metricService,
    dogstatsdHost,
    dogstatsdPort,
  }: Pick<Config, 'metricService' | 'dogstatsdHost' | 'dogstatsdPort'>,
  store: Store,
  log: Log,
): Adapter | undefined {
  if (metricService === 'print') return new Print(log);
  if (metricService === 'datadog')
    return new Datadog({ host: dogstatsdHost, port: dogstatsdPort }, new ReportedCounts(store));
  return undefined;
}
