// Written by `npm run client` from the API of the bus. test/documents.test.ts fails if this file is out of date.

export type EventType = 'create' | 'update' | 'delete' | 'noop';

export interface Client {
  token: string;
  name: string;
  publish?: string[] | undefined;
  subscribe?: string[] | undefined;
}

export interface AuditEntry {
  id: string;
  at: number;
  action: string;
  role: string;
  client: string | null;
  target: string | null;
  address: string;
  status: number;
  code: string | null;
  subscriptions: number | null;
}

export interface DeadLetter {
  id: string;
  subscriber: string;
  join?: string | undefined;
  reason: string;
  created_at: number;
  died_at: number;
  attempts: number;
  event_count: number;
}

export interface Delivery {
  id: string;
  subscriber: string;
  join?: string | undefined;
  state: 'open' | 'ready' | 'in_flight' | 'retrying' | 'paused' | 'taken' | 'dead' | 'dropped';
  opened_at: number;
  closed_at: number | null;
  first_attempt_at: number | null;
  last_attempt_at: number | null;
  ended_at: number | null;
  event_count: number;
  bytes: number | null;
  topics: { [name: string]: number } | null;
  attempt_count: number;
  attempts: {
    at: number;
    status: number | null;
    duration_ms: number;
    reason: string | null;
    answer: string | null;
  }[];
  reason: string | null;
}

export interface Job {
  id: string;
  queue: 'main' | 'aux';
  partition?: number | undefined;
  name: string | null;
  arguments: unknown[];
  state: 'pending' | 'instant' | 'waiting' | 'scheduled';
  subscriber: string | null;
  due: number | null;
  worker: string | null;
  since: number | null;
  attempts: number | null;
  paused: boolean | null;
}

export interface Join {
  name: string;
  client: string;
  sources: { topic: string; count: number }[];
  by: string;
  then: { topic: string; type: EventType };
  within: number;
  on_expiry: { topic: string; type: EventType } | null;
  created_at: number;
  updated_at: number;
  open: number;
  oldest: number | null;
  completed: number;
  expired: number;
  evicted: number;
  unkeyed: number;
  events: { queued: number; oldest: number | null };
  dead_letters: { batches: number; events: number };
  bytes: { queued: number; dead_letters: number };
  dropped: number;
  dropped_at: number | null;
}

export interface Subscriber {
  subscriber: string;
  uuid: string | null;
  callback: string;
  max_events: number;
  max_bytes: number;
  timeout: number;
  ordered: boolean;
  max_in_flight: number;
  max_attempts: number;
  max_age: number;
  signing: 'v1' | 'v1a' | null;
  topics: string[];
  health_points: number;
  last_attempted_at: number | null;
  paused_at: number | null;
  paused_by: 'callback_gone' | 'operator' | 'subscriber' | null;
  events: { sent: number; queued: number; oldest: number | null };
  dead_letters: { batches: number; events: number };
  bytes: { queued: number; dead_letters: number };
  dropped: {
    batches: number;
    events: number;
    from: number;
    to: number;
    topics: { [name: string]: number };
    last_at: number | null;
    untold: number;
  } | null;
  lately?:
    | {
        rate: number;
        success: number | null;
        drained_at: number | null;
        dropped_at: number | null;
        as_of: number;
      }
    | null
    | undefined;
}

export interface OtherSubscriber {
  subscriber: string;
  uuid: string | null;
  callback: string;
  max_events: number;
  timeout: number;
  topics: string[];
  events: { sent: number; queued: number; oldest: number | null };
}

export interface TailEntry {
  at: number;
  topic: string;
  client: string;
  bytes: number;
  skipped: number;
  event: { [name: string]: unknown } | null;
}

export interface Topic {
  name: string;
  publisher: string | null;
  events: number;
  delayed: number;
  dropped: { events: number; from: number; to: number } | null;
  lately?: { rate: number; as_of: number } | null | undefined;
}

export interface DeliveredEvent {
  id: string;
  topic: string;
  type: EventType;
  url: string;
  t: number;
  data?: unknown | undefined;
}

export interface DelayedEvent {
  at: number;
  event: DeliveredEvent;
}

export interface Trigger {
  name: string;
  client?: string | undefined;
  topic: string;
  event: { type: EventType; url: string; data?: unknown | undefined };
  schedule:
    | { cron: string; timezone: string; every?: undefined; at?: undefined }
    | { every: number; cron?: undefined; timezone?: undefined; at?: undefined }
    | { at: number; cron?: undefined; timezone?: undefined; every?: undefined };
  start: number;
  end: number | null;
  offset: number;
  catch_up: 'none' | 'latest' | 'all';
  paused: boolean;
  next_at: number | null;
  last_at: number | null;
  fired: number;
  missed: number;
  last_error: { code: string; at: number } | null;
}

/** The calls of the HTTP API, with the types of their query, JSON body and answer; undefined where there is none. */
export interface Calls {
  'GET /api_tokens': {
    query: { limit?: number | undefined; after?: string | undefined; name?: string | undefined };
    body: undefined;
    answer:
      | (Client & { created_at: number | null; secret_at: number | null; last_seen_at: number | null })[]
      | undefined;
  };
  'POST /api_tokens': {
    query: undefined;
    body: {
      name: string;
      token?: string | null | undefined;
      publish?: string[] | undefined;
      subscribe?: string[] | undefined;
      secret?: boolean | null | undefined;
    };
    answer: Client & { secret?: string | undefined };
  };
  'DELETE /api_tokens/:token': { query: undefined; body: undefined; answer: undefined };
  'PUT /api_tokens/:token': {
    query: undefined;
    body: { publish?: string[] | undefined; subscribe?: string[] | undefined };
    answer: Client;
  };
  'POST /api_tokens/:token/secret': {
    query: undefined;
    body: { grace?: number | undefined; secret_at?: number | undefined };
    answer: { token: string; secret: string; grace: number };
  };
  'GET /audit': {
    query: {
      since?: number | undefined;
      client?: string | undefined;
      action?:
        | 'client.create'
        | 'client.limit'
        | 'client.delete'
        | 'client.rotate_secret'
        | 'subscription.put'
        | 'subscription.delete'
        | 'subscriber.delete'
        | 'subscriber.pause'
        | 'subscriber.resume'
        | 'subscriber.test'
        | 'delivery.retry'
        | 'delivery.bury'
        | 'topic.give'
        | 'topic.delete'
        | 'delayed_event.delete'
        | 'join.put'
        | 'join.delete'
        | 'dead_letter.retry'
        | 'dead_letter.purge'
        | 'dead_letters.retry'
        | 'dead_letters.purge'
        | 'dead_letters.selected'
        | 'dead_letters.bulk'
        | 'dead_letters.bulk_confirm'
        | 'dead_letters.bulk_cancel'
        | 'job.run'
        | 'trigger.put'
        | 'trigger.delete'
        | 'trigger.fire'
        | undefined;
      target?: string | undefined;
      limit?: number | undefined;
      before?: string | undefined;
    };
    body: undefined;
    answer: AuditEntry[];
  };
  'DELETE /dead_letters': {
    query: { subscriber?: string | undefined; join?: string | undefined };
    body: undefined;
    answer: { purged: number };
  };
  'GET /dead_letters': {
    query: {
      subscriber?: string | undefined;
      join?: string | undefined;
      reason?:
        | 'max_attempts'
        | 'max_age'
        | 'failed_in_bus'
        | 'killed_worker'
        | 'join_refused'
        | 'buried'
        | undefined;
      since?: number | undefined;
      until?: number | undefined;
      limit?: number | undefined;
      before?: string | undefined;
    };
    body: undefined;
    answer: DeadLetter[];
  };
  'DELETE /dead_letters/:id': { query: undefined; body: undefined; answer: undefined };
  'GET /dead_letters/:id': {
    query: undefined;
    body: undefined;
    answer: DeadLetter & {
      history: {
        at: number;
        status: number | null;
        duration_ms: number;
        reason: string;
        answer: string | null;
      }[];
      events: { [name: string]: unknown }[];
    };
  };
  'POST /dead_letters/:id/retry': { query: undefined; body: undefined; answer: undefined };
  'POST /dead_letters/retry': {
    query: { subscriber?: string | undefined; join?: string | undefined };
    body: undefined;
    answer: { retried: number };
  };
  'GET /deliveries': {
    query: {
      subscriber?: string | undefined;
      join?: string | undefined;
      state?:
        | 'open'
        | 'ready'
        | 'in_flight'
        | 'retrying'
        | 'paused'
        | 'taken'
        | 'dead'
        | 'dropped'
        | undefined;
      since?: number | undefined;
      until?: number | undefined;
      limit?: number | undefined;
      before?: string | undefined;
    };
    body: undefined;
    answer: Delivery[];
  };
  'GET /deliveries/:id': {
    query: undefined;
    body: undefined;
    answer: Delivery & {
      waits_for?: 'time' | 'resume' | 'older_batch' | 'other_batch' | 'room' | 'worker' | undefined;
      next_attempt_at?: number | null | undefined;
      events?: { [name: string]: unknown }[] | undefined;
    };
  };
  'POST /deliveries/:id/bury': { query: undefined; body: undefined; answer: undefined };
  'POST /deliveries/:id/retry': { query: undefined; body: undefined; answer: undefined };
  'GET /docs': { query: undefined; body: undefined; answer: string };
  'GET /health': { query: undefined; body: undefined; answer: Record<string, unknown> };
  'GET /health/ping': { query: undefined; body: undefined; answer: { pong: string } };
  'GET /health/ping.json': { query: undefined; body: undefined; answer: { pong: string } };
  'GET /history': {
    query: {
      metric?:
        | 'published'
        | 'delivered'
        | 'failed'
        | 'queued'
        | 'oldest'
        | 'latency'
        | 'memory'
        | 'dead'
        | undefined;
      subject?: string | undefined;
      range?: '1h' | '24h' | '48h' | undefined;
    };
    body: undefined;
    answer: {
      subject: string;
      range: '1h' | '24h' | '48h';
      start: number;
      step: number;
      metrics: { [name: string]: { unit: string; values: (number | null)[] } };
    };
  };
  'GET /jobs': {
    query: {
      queue?: 'main' | 'aux' | undefined;
      state?: 'pending' | 'instant' | 'waiting' | 'scheduled' | undefined;
      limit?: number | undefined;
      cursor?: string | undefined;
    };
    body: undefined;
    answer: Job[];
  };
  'POST /jobs/:id/run': { query: undefined; body: undefined; answer: undefined };
  'GET /joins': {
    query: { limit?: number | undefined; after?: string | undefined };
    body: undefined;
    answer: Join[];
  };
  'DELETE /joins/:name': { query: { client?: string | undefined }; body: undefined; answer: undefined };
  'GET /joins/:name': {
    query: { client?: string | undefined; limit?: number | undefined; after?: string | undefined };
    body: undefined;
    answer: Join & {
      keys: {
        key: string;
        since: number;
        expires_at: number;
        counts: { [name: string]: number };
        events: string[];
      }[];
    };
  };
  'PUT /joins/:name': {
    query: { client?: string | undefined };
    body: {
      sources: { topic: string; count?: number | undefined }[];
      by: string;
      then: { topic: string; type?: EventType | undefined };
      within?: number | undefined;
      on_expiry?: { topic: string; type?: EventType | undefined } | null | undefined;
    };
    answer: Join;
  };
  'GET /metrics': { query: undefined; body: undefined; answer: string };
  'GET /openapi.json': { query: undefined; body: undefined; answer: { [name: string]: unknown } };
  'GET /pulse': { query: undefined; body: undefined; answer: undefined };
  'GET /pulse/scaling': { query: undefined; body: undefined; answer: undefined };
  'DELETE /subscriber': { query: undefined; body: undefined; answer: undefined };
  'POST /subscriber': {
    query: undefined;
    body: {
      topics: string[];
      callback: string;
      uuid?: string | null | undefined;
      timeout?: number | null | undefined;
      max?: number | null | undefined;
      max_bytes?: number | null | undefined;
      ordered?: boolean | null | undefined;
      max_in_flight?: number | null | undefined;
      max_attempts?: number | null | undefined;
      max_age?: number | null | undefined;
      signing_secret?: boolean | 'ed25519' | string | null | undefined;
    };
    answer:
      | { signing_secret: string; public_key?: undefined }
      | { public_key: string; signing_secret?: undefined }
      | undefined;
  };
  'POST /subscriber/pause': { query: undefined; body: undefined; answer: undefined };
  'POST /subscriber/resume': { query: undefined; body: undefined; answer: undefined };
  'POST /subscriber/test': { query: undefined; body: undefined; answer: { delivery: string } };
  'DELETE /subscriber/topics/:name': { query: undefined; body: undefined; answer: undefined };
  'GET /subscribers': {
    query: {
      limit?: number | undefined;
      after?: string | undefined;
      sort?:
        | 'name'
        | 'queued'
        | 'oldest'
        | 'rate'
        | 'success'
        | 'health'
        | 'dead_letters'
        | 'bytes'
        | 'state'
        | 'drained'
        | undefined;
      state?: 'failing' | 'paused' | 'recovering' | 'healthy' | undefined;
      name?: string | undefined;
    };
    body: undefined;
    answer: (
      | Subscriber
      | (OtherSubscriber & {
          max_bytes?: undefined;
          ordered?: undefined;
          max_in_flight?: undefined;
          max_attempts?: undefined;
          max_age?: undefined;
          signing?: undefined;
          health_points?: undefined;
          last_attempted_at?: undefined;
          paused_at?: undefined;
          paused_by?: undefined;
          dead_letters?: undefined;
          bytes?: undefined;
          dropped?: undefined;
          lately?: undefined;
        })
    )[];
  };
  'DELETE /subscribers/:token': { query: undefined; body: undefined; answer: undefined };
  'GET /subscribers/:token': { query: undefined; body: undefined; answer: Subscriber };
  'POST /subscribers/:token/pause': { query: undefined; body: undefined; answer: undefined };
  'POST /subscribers/:token/resume': { query: undefined; body: undefined; answer: undefined };
  'POST /subscribers/:token/test': { query: undefined; body: undefined; answer: { delivery: string } };
  'POST /subscription': Calls['POST /subscriber'];
  'GET /subscriptions': Calls['GET /subscribers'];
  'GET /tail': { query: { topic?: string | undefined }; body: undefined; answer: TailEntry[] };
  'DELETE /topic/:name': { query: undefined; body: undefined; answer: undefined };
  'GET /topics': {
    query: {
      limit?: number | undefined;
      after?: string | undefined;
      sort?: 'name' | 'rate' | undefined;
      name?: string | undefined;
    };
    body: undefined;
    answer: Topic[];
  };
  'DELETE /topics/:name': { query: undefined; body: undefined; answer: undefined };
  'GET /topics/:name': {
    query: undefined;
    body: undefined;
    answer: Topic & { subscriber_count: number; subscribers: string[] };
  };
  'POST /topics/:name': { query: undefined; body: undefined; answer: undefined };
  'GET /topics/:name/delayed': {
    query: { limit?: number | undefined; after?: string | undefined };
    body: undefined;
    answer: DelayedEvent[];
  };
  'DELETE /topics/:name/delayed/:id': { query: undefined; body: undefined; answer: undefined };
  'PUT /topics/:name/publisher': { query: undefined; body: { client: string }; answer: undefined };
  'GET /triggers': {
    query: { client?: string | undefined; limit?: number | undefined; after?: string | undefined };
    body: undefined;
    answer: Trigger[];
  };
  'DELETE /triggers/:name': { query: { client?: string | undefined }; body: undefined; answer: undefined };
  'GET /triggers/:name': {
    query: { client?: string | undefined; preview?: number | undefined };
    body: undefined;
    answer: Trigger & { preview?: number[] | undefined };
  };
  'PUT /triggers/:name': {
    query: { client?: string | undefined };
    body: {
      topic: string;
      event?: { type: EventType; url: string; data?: unknown | undefined } | undefined;
      schedule:
        | { cron: string; timezone?: string | undefined; every?: undefined; at?: undefined }
        | { every: number; cron?: undefined; timezone?: undefined; at?: undefined }
        | { at: number; cron?: undefined; timezone?: undefined; every?: undefined };
      start?: number | null | undefined;
      end?: number | null | undefined;
      offset?: number | null | undefined;
      catch_up?: 'none' | 'latest' | 'all' | null | undefined;
      paused?: boolean | null | undefined;
    };
    answer: Trigger;
  };
  'POST /triggers/:name/fire': {
    query: { client?: string | undefined };
    body: undefined;
    answer: { id: string };
  };
}
