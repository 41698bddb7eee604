import type { Scenario } from './scenario.ts';
import { badSubscribers } from './scenarios/bad_subscribers.ts';
import { client } from './scenarios/client.ts';
import { clocks } from './scenarios/clocks.ts';
import { controlAway } from './scenarios/control_away.ts';
import { delayed } from './scenarios/delayed.ts';
import { delayedFlood } from './scenarios/delayed_flood.ts';
import { failoverCluster } from './scenarios/failover_cluster.ts';
import { failoverSentinel } from './scenarios/failover_sentinel.ts';
import { frozenWorker } from './scenarios/frozen_worker.ts';
import { hostileClients } from './scenarios/hostile_clients.ts';
import { joins } from './scenarios/joins.ts';
import { masterAway } from './scenarios/master_away.ts';
import { ordered } from './scenarios/ordered.ts';
import { outboxKill } from './scenarios/outbox_kill.ts';
import { overload } from './scenarios/overload.ts';
import { poison } from './scenarios/poison.ts';
import { redisKill } from './scenarios/redis_kill.ts';
import { redisProxy } from './scenarios/redis_proxy.ts';
import { rollingMove } from './scenarios/rolling_move.ts';
import { slotMigration } from './scenarios/slot_migration.ts';
import { steps } from './scenarios/steps.ts';
import { storageFull } from './scenarios/storage_full.ts';
import { triggers } from './scenarios/triggers.ts';
import { webKill } from './scenarios/web_kill.ts';
import { workerKill } from './scenarios/worker_kill.ts';

/** All scenarios, in the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  workerKill,
  webKill,
  client,
  steps,
  frozenWorker,
  redisKill,
  failoverSentinel,
  failoverCluster,
  slotMigration,
  redisProxy,
  outboxKill,
  masterAway,
  controlAway,
  poison,
  ordered,
  delayed,
  joins,
  badSubscribers,
  hostileClients,
  delayedFlood,
  clocks,
  triggers,
  storageFull,
  rollingMove,
  overload,
];
