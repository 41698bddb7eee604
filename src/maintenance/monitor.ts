import { Clients } from '../authentication/client.ts';
import { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { Datadog, ReportedCounts } from '../metrics/datadog.ts';
import { collectFigures, type Figure } from '../metrics/figures.ts';
import type { Store } from '../store/store.ts';

type Send = (figures: readonly Figure[]) => Promise<void>;

/** The `monitor` job: sends all figures of the bus to the metric service, tagged with `env` and `app`. */
export function monitorJob(store: Store, config: Config, log: Log): () => Promise<void> {
  const send = senderOf(config, store, log);
  const publicNames = new PublicNames(new Clients(store, config.clients));
  return async () => {
    if (!send) return;
    const figures = await collectFigures({ store, limits: config, publicNames, log });
    const bus = { env: config.environment, app: config.appName };
    await send(figures.map((figure) => ({ ...figure, tags: { ...figure.tags, ...bus } })));
  };
}

/** Returns a function that sends figures; undefined for Prometheus, which scrapes `/metrics` instead. */
function senderOf(config: Config, store: Store, log: Log): Send | undefined {
  if (config.metricService === 'prometheus') return undefined;
  if (config.metricService === 'print') return async (figures) => logFigures(figures, log);
  const agent = { host: config.dogstatsdHost, port: config.dogstatsdPort };
  const datadog = new Datadog(agent, new ReportedCounts(store));
  return (figures) => datadog.send(figures);
}

/** Logs one line per figure; counters as totals. */
function logFigures(figures: readonly Figure[], log: Log): void {
  for (const { kind, name, value, tags } of figures) log.info({ [kind]: name, value, tags }, 'figure');
}
