import { AnyCall, type ListOptions } from './any_call.ts';
import type { CallInput } from './calls.ts';
import type { CallOptions } from './deadline.ts';
import type { Calls } from './generated/calls.ts';

/**
 * Selects the dead letters to retry or purge. Root must name a `subscriber`. A client may leave it out, because a
 * client reaches only its own dead letters. If `join` is given, only the dead letters of this join are selected.
 */
interface Whose {
  subscriber?: string | undefined;
  join?: string | undefined;
}

/**
 * `client` is the token of the client that owns a join or trigger. Clients may leave out `client`, because they reach
 * only their own joins and triggers.
 */
interface Owner {
  client?: string | undefined;
}

type WhichTrigger = Calls['GET /triggers/:name']['query'];
type Rotation = CallInput<'POST /api_tokens/:token/secret'>['body'];

/** The calls of the API except publishing. docs/api.md of the bus says what each call does, and who may make it. */
export abstract class Api extends AnyCall {
  /**
   * Subscribes the client, or changes its subscription. The `topics` replace those of an earlier call. If `uuid` is
   * left out, it becomes the user name in the `callback`, or empty. Any other setting that is left out keeps its value.
   * Resolves with the signing key if the bus made one.
   */
  subscribe(subscription: CallInput<'POST /subscription'>['body'], options?: CallOptions) {
    return this.call('POST /subscription', { body: subscription }, options);
  }

  unsubscribe(topic: string, options?: CallOptions) {
    return this.call('DELETE /subscriber/topics/:name', { params: { name: topic } }, options);
  }

  /** Ends all subscriptions of the client, and drops its queued events and its dead letters. */
  leave(options?: CallOptions) {
    return this.call('DELETE /subscriber', {}, options);
  }

  /** Stops the deliveries to this client. Its events stay queued. */
  pause(options?: CallOptions) {
    return this.call('POST /subscriber/pause', {}, options);
  }

  resume(options?: CallOptions) {
    return this.call('POST /subscriber/resume', {}, options);
  }

  /** Sends an event of the topic `routemaster_test` to this client, and resolves with the id of its batch. */
  test(options?: CallOptions) {
    return this.call('POST /subscriber/test', {}, options);
  }

  subscriptions(options: ListOptions<'GET /subscriptions'> = {}) {
    return this.list('GET /subscriptions', options);
  }

  /** Resolves with one subscriber. A client may ask only for itself. */
  subscriber(token: string, options?: CallOptions) {
    return this.call('GET /subscribers/:token', { params: { token } }, options);
  }

  /** Sends an event of the topic `routemaster_test` to one subscriber, and resolves with the id of its batch. */
  testSubscriber(token: string, options?: CallOptions) {
    return this.call('POST /subscribers/:token/test', { params: { token } }, options);
  }

  pauseSubscriber(token: string, options?: CallOptions) {
    return this.call('POST /subscribers/:token/pause', { params: { token } }, options);
  }

  resumeSubscriber(token: string, options?: CallOptions) {
    return this.call('POST /subscribers/:token/resume', { params: { token } }, options);
  }

  removeSubscriber(token: string, options?: CallOptions) {
    return this.call('DELETE /subscribers/:token', { params: { token } }, options);
  }

  /** Makes a join, or changes it. */
  putJoin(
    name: string,
    rules: CallInput<'PUT /joins/:name'>['body'],
    { client, ...options }: Owner & CallOptions = {},
  ) {
    return this.call('PUT /joins/:name', { params: { name }, query: { client }, body: rules }, options);
  }

  joins(options: ListOptions<'GET /joins'> = {}) {
    return this.list('GET /joins', options);
  }

  /**
   * Resolves with a join and its open keys, oldest first. A join collects events by a key, such as the id of an order.
   * The key is open while the join still waits for an event with this key from one of its topics. `limit` is the
   * maximum number of keys, by default 100.
   */
  join(
    name: string,
    { client, limit, ...options }: Owner & { limit?: number | undefined } & CallOptions = {},
  ) {
    return this.call('GET /joins/:name', { params: { name }, query: { client, limit } }, options);
  }

  removeJoin(name: string, { client, ...options }: Owner & CallOptions = {}) {
    return this.call('DELETE /joins/:name', { params: { name }, query: { client } }, options);
  }

  topics(options: ListOptions<'GET /topics'> = {}) {
    return this.list('GET /topics', options);
  }

  /** Lists the events that wait to be published to a topic, in the order in which they are due. */
  delayedEvents(topic: string, options: ListOptions<'GET /topics/:name/delayed'> = {}) {
    return this.list('GET /topics/:name/delayed', { ...options, params: { name: topic } });
  }

  removeDelayedEvent(topic: string, id: string, options?: CallOptions) {
    return this.call('DELETE /topics/:name/delayed/:id', { params: { name: topic, id } }, options);
  }

  /** Resolves with a topic, including those of its subscribers that the caller may see. */
  topic(name: string, options?: CallOptions) {
    return this.call('GET /topics/:name', { params: { name } }, options);
  }

  /** Makes the client with this token the publisher of a topic, in place of its present publisher. */
  giveTopic(name: string, client: string, options?: CallOptions) {
    return this.call('PUT /topics/:name/publisher', { params: { name }, body: { client } }, options);
  }

  removeTopic(name: string, options?: CallOptions) {
    return this.call('DELETE /topics/:name', { params: { name } }, options);
  }

  /** Lists triggers. Without `client`, root and viewers get the triggers of all clients. */
  triggers(options: ListOptions<'GET /triggers'> = {}) {
    return this.list('GET /triggers', options);
  }

  /** Resolves with a trigger. With `preview: n`, adds the next `n` times at which the trigger fires. */
  trigger(name: string, { signal, timeoutMs, ...query }: WhichTrigger & CallOptions = {}) {
    return this.call('GET /triggers/:name', { params: { name }, query }, { signal, timeoutMs });
  }

  /** Creates or replaces a trigger. */
  putTrigger(
    name: string,
    trigger: CallInput<'PUT /triggers/:name'>['body'],
    { client, ...options }: Owner & CallOptions = {},
  ) {
    return this.call('PUT /triggers/:name', { params: { name }, query: { client }, body: trigger }, options);
  }

  removeTrigger(name: string, { client, ...options }: Owner & CallOptions = {}) {
    return this.call('DELETE /triggers/:name', { params: { name }, query: { client } }, options);
  }

  /** Publishes the event of a trigger now. */
  fireTrigger(name: string, { client, ...options }: Owner & CallOptions = {}) {
    return this.call('POST /triggers/:name/fire', { params: { name }, query: { client } }, options);
  }

  /** Lists what became of each batch, the newest first. Without `subscriber`, root and viewers get all batches. */
  deliveries(options: ListOptions<'GET /deliveries'> = {}) {
    return this.list('GET /deliveries', options);
  }

  /** Resolves with a batch and its attempts. Its events are included while the bus still has them. */
  delivery(id: string, options?: CallOptions) {
    return this.call('GET /deliveries/:id', { params: { id } }, options);
  }

  /** Makes the bus deliver a batch at once, although the batch still waits for more events or for its next attempt. */
  retryDelivery(id: string, options?: CallOptions) {
    return this.call('POST /deliveries/:id/retry', { params: { id } }, options);
  }

  /** Makes a batch that waits a dead letter. The batches behind it go on. */
  buryDelivery(id: string, options?: CallOptions) {
    return this.call('POST /deliveries/:id/bury', { params: { id } }, options);
  }

  /** Lists dead letters, the newest first. Without `subscriber`, root and viewers get those of all subscribers. */
  deadLetters(options: ListOptions<'GET /dead_letters'> = {}) {
    return this.list('GET /dead_letters', options);
  }

  /** Resolves with a dead letter and its events. */
  deadLetter(id: string, options?: CallOptions) {
    return this.call('GET /dead_letters/:id', { params: { id } }, options);
  }

  retryDeadLetter(id: string, options?: CallOptions) {
    return this.call('POST /dead_letters/:id/retry', { params: { id } }, options);
  }

  purgeDeadLetter(id: string, options?: CallOptions) {
    return this.call('DELETE /dead_letters/:id', { params: { id } }, options);
  }

  retryDeadLetters({ subscriber, join, ...options }: Whose & CallOptions = {}) {
    return this.call('POST /dead_letters/retry', { query: { subscriber, join } }, options);
  }

  purgeDeadLetters({ subscriber, join, ...options }: Whose & CallOptions = {}) {
    return this.call('DELETE /dead_letters', { query: { subscriber, join } }, options);
  }

  clients(options: ListOptions<'GET /api_tokens'> = {}) {
    return this.list('GET /api_tokens', options);
  }

  /** Makes a client. Resolves with the client and, if it has one, its secret, which the bus shows only this once. */
  createClient(client: CallInput<'POST /api_tokens'>['body'], options?: CallOptions) {
    return this.call('POST /api_tokens', { body: client }, options);
  }

  /**
   * Limits the topics to which a client may publish and subscribe. The new limits replace the old ones. If `publish` is
   * left out, the client may publish to all topics; the same holds for `subscribe`.
   */
  limitClient(token: string, limits: CallInput<'PUT /api_tokens/:token'>['body'], options?: CallOptions) {
    return this.call('PUT /api_tokens/:token', { params: { token }, body: limits }, options);
  }

  /**
   * Makes a new secret for a client. The present secret still works for `grace` ms, by default a day. Older secrets
   * stop working.
   *
   * If the answer is lost, the call may have been done. A repeat would then end the secret that the client still uses.
   * To make a repeat safe, give `secret_at`: the time at which the present secret was made, from `clients()`. If the
   * first call was done, the repeat then changes nothing, and rejects with BadClientError.
   */
  rotateSecret(token: string, { signal, timeoutMs, ...body }: Rotation & CallOptions = {}) {
    return this.call('POST /api_tokens/:token/secret', { params: { token }, body }, { signal, timeoutMs });
  }

  removeClient(token: string, options?: CallOptions) {
    return this.call('DELETE /api_tokens/:token', { params: { token } }, options);
  }

  /** Lists who changed what, the newest change first. */
  audit(options: ListOptions<'GET /audit'> = {}) {
    return this.list('GET /audit', options);
  }

  jobs(options: ListOptions<'GET /jobs'> = {}) {
    return this.list('GET /jobs', options);
  }

  /**
   * Resolves with metrics of the bus, a topic or a subscriber, such as events per second, over the last hour, day or
   * two days.
   */
  history(query: CallInput<'GET /history'>['query'] = {}, options?: CallOptions) {
    return this.call('GET /history', { query }, options);
  }

  /**
   * Resolves with a sample of the events that the bus has just accepted, newest first. The bus collects events for the
   * sample only while somebody asks for it. So the first answer is empty: call this method every few seconds.
   */
  tail(query: CallInput<'GET /tail'>['query'] = {}, options?: CallOptions) {
    return this.call('GET /tail', { query }, options);
  }

  /** Runs a scheduled job now. */
  runJob(id: string, options?: CallOptions) {
    return this.call('POST /jobs/:id/run', { params: { id } }, options);
  }

  /** Resolves if the web process is running. */
  health(options?: CallOptions) {
    return this.call('GET /health', {}, options);
  }

  /** Resolves with the time of the web process. */
  ping(options?: CallOptions) {
    return this.call('GET /health/ping', {}, options);
  }

  /** Resolves if the bus works, Redis included. */
  pulse(options?: CallOptions) {
    return this.call('GET /pulse', {}, options);
  }

  /**
   * A call for autoscalers that start more workers when response times grow. While many deliveries wait for workers,
   * the bus answers this call a second late on purpose.
   */
  scaling(options?: CallOptions) {
    return this.call('GET /pulse/scaling', {}, options);
  }

  /** Resolves with the metrics of the bus, in the text format of Prometheus. */
  metrics(options?: CallOptions) {
    return this.call('GET /metrics', {}, options);
  }

  /** Resolves with the description of the API of this bus, in OpenAPI 3.1. */
  openApi(options?: CallOptions) {
    return this.call('GET /openapi.json', {}, options);
  }
}
