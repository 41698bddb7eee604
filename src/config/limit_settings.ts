import { setting } from './setting.ts';
import { bytes, seconds, whole } from './values.ts';

export const rates = {
  publishRate: setting('ROUTEMASTER_PUBLISH_RATE', whole(0, 1_000_000_000), '0').help(
    'Events a second that each client may publish, over all web processes; more is answered 429. 0: no limit.',
  ),
  publishBytes: setting('ROUTEMASTER_PUBLISH_BYTES', bytes, '0').help(
    'Bytes of bodies a second that each client may publish, over all web processes. 0: no limit.',
  ),
  publishBurstMs: setting('ROUTEMASTER_PUBLISH_BURST', seconds(1, 3600), '10').help(
    'Seconds for which a client that publishes less than it may saves up the rest.',
  ),
  callRate: setting('ROUTEMASTER_CALL_RATE', whole(0, 1_000_000), '50').help(
    'Calls a second, besides publishes, that a web process allows a client; each 16 KiB of answer cost one. ' +
      '0: no limit, nor of calls at once.',
  ),
  strangerRate: setting('ROUTEMASTER_STRANGER_RATE', whole(0, 1_000_000), '100').help(
    'Requests a second without credentials, besides health checks, that a web process allows an address. 0: no limit.',
  ),
};

export const limits = {
  maxTopics: setting('ROUTEMASTER_MAX_TOPICS', whole(1, 1_000_000), '10000').help('Maximum topics.'),
  maxClientTopics: setting('ROUTEMASTER_MAX_CLIENT_TOPICS', whole(1, 1_000_000), '1000').help(
    'Maximum topics that one client owns.',
  ),
  maxSubscribers: setting('ROUTEMASTER_MAX_SUBSCRIBERS', whole(1, 1_000_000), '10000').help(
    'Maximum subscribers.',
  ),
  maxSubscriptionTopics: setting('ROUTEMASTER_MAX_SUBSCRIPTION_TOPICS', whole(1, 10_000), '1000').help(
    'Maximum topics of one subscriber.',
  ),
  maxEventDataBytes: setting('ROUTEMASTER_MAX_EVENT_DATA', bytes, '65536').help(
    'Maximum bytes of the data of an event, as JSON. The Ruby Routemaster allowed 64.',
  ),
  idempotencyWindowMs: setting('ROUTEMASTER_IDEMPOTENCY_WINDOW', seconds(1, 86_400), '600').help(
    'Seconds for which an Idempotency-Key is remembered, in 180 bytes of Redis. Its repeats store nothing.',
  ),
  maxIdempotencyKeys: setting('ROUTEMASTER_MAX_IDEMPOTENCY_KEYS', whole(1, 1_000_000_000), '100000').help(
    'Maximum Idempotency-Keys of a client in that time; fewer if they could take 5 % of the memory of Redis.',
  ),
};

/** Limits of delayed events, triggers and joins. */
export const flow = {
  maxClientDelayed: setting('ROUTEMASTER_MAX_CLIENT_DELAYED', whole(0, 1_000_000_000), '100000').help(
    'Maximum events of a client that wait to be published later (`at`, `delay`).',
  ),
  clientDelayedShare: setting('ROUTEMASTER_CLIENT_DELAYED_SHARE', whole(0, 100), '5').help(
    'Per cent of the memory limit of Redis that the delayed events of a client may take.',
  ),
  maxTriggers: setting('ROUTEMASTER_MAX_TRIGGERS', whole(0, 1_000_000), '100000').help('Maximum triggers.'),
  maxClientTriggers: setting('ROUTEMASTER_MAX_CLIENT_TRIGGERS', whole(0, 10_000), '1000').help(
    'Maximum triggers of one client; their definitions take 5 % of the memory limit of Redis at most.',
  ),
  maxJoins: setting('ROUTEMASTER_MAX_JOINS', whole(1, 100_000), '1000').help('Maximum joins.'),
  maxClientJoins: setting('ROUTEMASTER_MAX_CLIENT_JOINS', whole(1, 10_000), '100').help(
    'Maximum joins of one client.',
  ),
  maxJoinKeys: setting('ROUTEMASTER_MAX_JOIN_KEYS', whole(1, 10_000_000), '100000').help(
    'Maximum open keys of a join; with more, its oldest key expires early.',
  ),
  maxJoinBytes: setting('ROUTEMASTER_MAX_JOIN_BYTES', bytes, '67108864').help(
    'Bytes of Redis that the open keys of all joins of a client may take, each join an equal part; ' +
      'at most 5 % of the memory limit of Redis.',
  ),
};
