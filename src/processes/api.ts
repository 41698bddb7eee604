import { apiTokensApi } from '../authentication/api_tokens_api.ts';
import { Authentication } from '../authentication/authentication.ts';
import { Clients } from '../authentication/client.ts';
import { ClientDirectory } from '../authentication/client_directory.ts';
import { FailedLogins } from '../authentication/failed_logins.ts';
import { LastSeen } from '../authentication/last_seen.ts';
import { NameKey } from '../authentication/name_key.ts';
import { NonceKeys } from '../authentication/nonce_keys.ts';
import { NonceUses } from '../authentication/nonce_uses.ts';
import { Nonces } from '../authentication/nonces.ts';
import { PublicNames } from '../authentication/public_names.ts';
import { Sessions } from '../authentication/sessions.ts';
import type { Config } from '../config.ts';
import { consolePages } from '../console/console.ts';
import { Bulks } from '../delivering/dead_letters/bulks.ts';
import { DeadLetters } from '../delivering/dead_letters/dead_letters.ts';
import { autodrops, Queue } from '../delivering/queue.ts';
import { delayedApi } from '../flow/delayed/delayed_api.ts';
import { Delaying } from '../flow/delayed/delaying.ts';
import { Joins } from '../flow/joins/joins.ts';
import { joinsApi } from '../flow/joins/joins_api.ts';
import { Triggers } from '../flow/triggers/triggers.ts';
import { triggersApi } from '../flow/triggers/triggers_api.ts';
import { CallLimits } from '../http/call_limits.ts';
import { WorkBudget } from '../http/work_budget.ts';
import type { Log } from '../log.ts';
import type { Counters } from '../metrics/counters.ts';
import { healthApi } from '../metrics/health_api.ts';
import { History } from '../metrics/history.ts';
import { historyApi } from '../metrics/history_api.ts';
import { metricsApi } from '../metrics/metrics_api.ts';
import type { Recorder } from '../metrics/recorder.ts';
import { LatestStandings } from '../metrics/standings.ts';
import { openApi } from '../openapi/openapi_api.ts';
import { Copies } from '../publishing/copies.ts';
import { DELIVERED } from '../publishing/event_schema.ts';
import { maxClientKeys } from '../publishing/idempotency.ts';
import { Outbox } from '../publishing/outbox.ts';
import type { Publication } from '../publishing/publication.ts';
import { publishApi } from '../publishing/publish_api.ts';
import { Publisher } from '../publishing/publisher.ts';
import { RateLimit } from '../publishing/rate_limit.ts';
import { StorageGuard } from '../publishing/storage_guard.ts';
import { testEventApi } from '../publishing/test_event_api.ts';
import { Audit } from '../records/audit.ts';
import { auditApi } from '../records/audit_api.ts';
import { deadLettersApi } from '../records/dead_letters_api.ts';
import { Deliveries } from '../records/deliveries.ts';
import { deliveriesApi } from '../records/deliveries_api.ts';
import { Jobs } from '../records/jobs.ts';
import { jobsApi } from '../records/jobs_api.ts';
import { Tail } from '../records/tail.ts';
import { tailApi } from '../records/tail_api.ts';
import { DIALECTS, type Dialect } from '../routing/dialect.ts';
import { Pages } from '../routing/paging.ts';
import { Proxies } from '../routing/proxies.ts';
import { declaredQueries } from '../routing/query.ts';
import { clientBytes, shareOfBytes } from '../store/client_quota.ts';
import type { Partitions } from '../store/partitions.ts';
import { RedisTimes } from '../store/redis_times.ts';
import { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { pauseApi } from '../subscribing/pause_api.ts';
import { Subscribers } from '../subscribing/subscriber.ts';
import { subscribersApi } from '../subscribing/subscribers_api.ts';
import { Subscriptions } from '../subscribing/subscription.ts';
import { subscriptionsApi } from '../subscribing/subscriptions_api.ts';
import { Topics } from '../subscribing/topic.ts';
import { TopicMarks } from '../subscribing/topic_marks.ts';
import { topicsApi } from '../subscribing/topics_api.ts';
import { sumOf } from '../sum.ts';

export interface ApiParts {
  config: Config;
  partitions: Partitions;
  /**
   * The partitions for publications, on a second connection. A script call on these partitions resolves only when
   * ROUTEMASTER_MIN_REPLICAS replicas have confirmed its writes. Undefined if the setting is 0.
   */
  confirmed?: Partitions | undefined;
  recorder: Recorder;
  counters: Pick<Counters, 'notAccepted'>;
  log: Log;
}

/**
 * Makes everything that a web process serves. Returns:
 * - `routesIn`: a function that returns the routes of the API in a dialect (the formats of this bus, or those of the
 *   Ruby Routemaster);
 * - `pages`: the routes of the console;
 * - the objects that are needed for every request, such as `authentication`.
 */
export function buildApi({ config, partitions, confirmed = partitions, recorder, counters, log }: ApiParts) {
  const { control } = partitions;
  const storageFull = autodrops(partitions, config);
  const guard = new StorageGuard(partitions, config, storageFull);
  const limits = limitsOf(config, guard);
  const proxies = new Proxies(config.trustedProxies);
  const budget = new WorkBudget();

  // Clients and their credentials
  const clients = new Clients(control, config.clients, partitions.all.slice(1));
  const directory = new ClientDirectory(clients);
  const nameKey = new NameKey(control);
  const publicNames = new PublicNames(directory, nameKey);
  const pages = new Pages(nameKey);
  const authentication = new Authentication({
    rootKeys: config.rootKeys,
    viewerKeys: config.viewerKeys,
    clients: directory,
    nonces: new Nonces(new NonceKeys(control), new NonceUses(control, () => guard.maxBytes)),
    failures: new FailedLogins(control, log),
    recorder,
    proxies,
    md5: config.digestMd5,
    log,
  });
  const sessions = new Sessions(control, authentication.credentials);
  const audit = new Audit({ control, publicNames, config, log });

  // Topics and subscribers
  const marks = new TopicMarks(partitions);
  const outbox = new Outbox({ confirmed, recorder, marks, limits: config, log });
  const deadLetters = new DeadLetters(partitions, config, (token, events) => recorder.added(token, events));
  const topics = new Topics(partitions, outbox);
  const subscribers = new Subscribers(partitions, config, { outbox, deadLetters, recorder });
  const subscriptions = new Subscriptions(partitions, config, outbox);
  const joins = new Joins(partitions, config);
  const policy = new CallbackPolicy(config.callbackAllow, config);

  // Events
  const tail = new Tail(control, log);
  const publishing = {
    partitions: confirmed,
    copies: new Copies(confirmed),
    recorder,
    limits,
    onFull: storageFull,
    onAccepted: (publication: Publication) => tail.note(publication),
  };
  const times = new RedisTimes();
  const publisher = new Publisher(publishing);
  const delaying = new Delaying(publishing);
  const triggers = new Triggers(partitions, limits, confirmed);
  const rateLimit = RateLimit.of(control, config);

  // Records and figures
  const deliveries = new Deliveries(partitions);
  const history = new History(partitions);
  const standings = new LatestStandings(partitions);
  const jobs = new Jobs(partitions);

  const makeRoutes = (dialect: Dialect) => {
    const accepting = { publisher, guard, rateLimit, limits, budget, dialect };
    const rows = [
      ...healthApi({ config, partitions, dueDeliveries: dueDeliveries(partitions, config) }),
      ...metricsApi({ partitions, limits, publicNames, counters, log }),
      ...publishApi({ ...accepting, partitions, times, delaying }),
      ...topicsApi({ topics, standings, limits, joins, pages, publicNames, clients, log }),
      ...delayedApi({ partitions }),
      ...triggersApi({ ...accepting, triggers, pages, publicNames, clients }),
      ...subscriptionsApi({ clients, subscribers, subscriptions, policy, limits, dialect }),
      ...subscribersApi({ subscribers, standings, clients, pages, publicNames, dialect }),
      ...pauseApi({ subscribers }),
      ...testEventApi({ partitions, times, guard, recorder }),
      ...joinsApi({ joins, clients, pages, publicNames, subscribers }),
      ...deadLettersApi({ deadLetters, deliveries, guard, subscribers, joins, publicNames }),
      ...deliveriesApi({ deliveries, recorder, subscribers, joins, publicNames }),
      ...apiTokensApi({ clients, pages, publicNames, config, subscribers, joins, authentication, dialect }),
      ...auditApi({ audit }),
      ...jobsApi({ jobs, pages, publicNames }),
      ...historyApi({ history, publicNames, topics, subscribers }),
      ...tailApi({ tail, publicNames }),
    ];
    const routes = declaredQueries(rows, dialect);
    const { forceSsl } = config;
    return [...routes, ...openApi(routes, { dialect, proxies, forceSsl, delivered: DELIVERED })];
  };
  const routes = makeRoutes(DIALECTS.none);
  return {
    routesIn: (dialect: Dialect) => (dialect === DIALECTS.none ? routes : makeRoutes(dialect)),
    pages: consolePages(routes, {
      authentication,
      sessions,
      proxies,
      partitions,
      limits,
      history,
      bulks: new Bulks(partitions),
      joins,
      publicNames,
      subscribers,
    }),
    authentication,
    sessions,
    proxies,
    audit,
    budget,
    lastSeen: new LastSeen(control, log),
    callLimits: new CallLimits(config, proxies),
  };
}

/**
 * Returns the settings, and the limits of what a client may store. The limits are getters, because they depend on the
 * memory limit of Redis, which may change.
 */
function limitsOf(config: Config, guard: StorageGuard) {
  return {
    ...config,
    get maxClientKeys() {
      return maxClientKeys(config.maxIdempotencyKeys, guard.maxBytesOfPartition);
    },
    get maxClientBytes() {
      return shareOfBytes(config.clientDelayedShare, guard.maxBytesOfPartition);
    },
    get maxClientTriggerBytes() {
      return clientBytes(guard.maxBytesOfPartition);
    },
  };
}

/**
 * Returns a function that counts the deliveries that may begin now or within ROUTEMASTER_SCALING_DEADLINE. Partitions
 * that are away are not counted. Hosting platforms read the number at `/pulse/scaling` to decide how many processes to
 * run.
 */
function dueDeliveries(partitions: Partitions, config: Config): () => Promise<number> {
  return async () => {
    const { found } = await partitions.reach((partition) =>
      new Queue(partition, 'main', config).due(config.scalingDeadlineMs),
    );
    return sumOf(found);
  };
}
