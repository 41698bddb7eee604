import { z } from 'zod';
import { ATTEMPT, type AttemptReport } from '../delivering/attempt_report.ts';
import { NAMED } from '../routing/schemas.ts';
import type { Reply } from '../store/contracts.ts';

/** The states of a batch. docs/api.md explains each state. */
export const STATES = [
  'open',
  'ready',
  'in_flight',
  'retrying',
  'paused',
  'taken',
  'dead',
  'dropped',
] as const;

const ms = z.int();

const ENDED_ATTEMPT = ATTEMPT.extend({
  reason: z.string().nullable().describe('Why it failed.'),
  answer: z.string().nullable().describe('The beginning of the body of the answer, if it failed.'),
});
type Attempt = z.infer<typeof ENDED_ATTEMPT>;

const FIELDS = z.object({
  id: z.string().describe('The id of the batch, which is the `webhook-id` of its deliveries.'),
  subscriber: z.string(),
  join: z.string().optional().describe('If a join counts the batch: its name. The subscriber is its client.'),
  state: z.enum(STATES),
  opened_at: ms,
  closed_at: ms
    .nullable()
    .describe('Since when it takes no further events: full, or at its first attempt. Null while it is open.'),
  first_attempt_at: ms.nullable(),
  last_attempt_at: ms.nullable(),
  ended_at: ms.nullable().describe('When it was taken, died or was dropped.'),
  event_count: z.int(),
  bytes: z.int().nullable().describe('Of a delivery.'),
  topics: z.record(z.string(), z.int()).nullable().describe('How many events each topic has.'),
  attempt_count: z.int().describe('How many attempts have begun.'),
  attempts: z.array(ENDED_ATTEMPT).describe('The last ones that have ended.'),
  reason: z.string().nullable().describe('Why it is dead, or was dropped.'),
});
/** A batch as the API shows it. Times are in ms, by Redis's clock. */
export const DELIVERY = FIELDS.register(NAMED, { name: 'Delivery' });
export type Delivery = z.infer<typeof DELIVERY>;

type Entry = Reply<'list_deliveries'>['entries'][number];

/** What a batch can wait for. docs/api.md explains each word. */
const WAITS = ['time', 'resume', 'older_batch', 'other_batch', 'room', 'worker'] as const;

/** The fields of a batch that waits for an attempt. */
export const WAIT = z.object({
  waits_for: z.enum(WAITS).describe('Why it is not tried now.'),
  next_attempt_at: ms.nullable().describe('Before this time it is not tried; null if none is known.'),
});
export type Wait = z.infer<typeof WAIT>;

/** A record in the delivery log (lua/records/delivery_log.lua). */
type Record = [
  endedAtUs: number,
  /** When the batch was closed to further events. 0 if its first events filled it, so that it was never open. */
  closedAtMs: number,
  openedAtMs: number,
  events: number,
  attempts: number,
  topics: Delivery['topics'],
  ...rest: Taken | Dropped,
];
type Taken = [bytes: number, atMs: number, status: number | null, durationMs: number, ...Failures];
type Dropped = [reason: string, ...Failures];
type Failures = [firstAttemptAtMs?: number | null, attempts?: AttemptReport[]];

export function deliveryOf(entry: Entry): Delivery {
  if (entry.record === undefined) return stillThere(entry);
  const { id, subscriber, state } = entry;
  const record: Record = JSON.parse(`[${entry.record}]`);
  const [endedAtUs, closedAtMs, openedAtMs, event_count, attempt_count, topics, ...rest] = record;
  return {
    id,
    subscriber,
    state,
    opened_at: openedAtMs,
    closed_at: closedAtMs || openedAtMs,
    ended_at: Math.floor(endedAtUs / 1000),
    event_count,
    attempt_count,
    topics,
    ...(state === 'taken' ? taken(rest as Taken, attempt_count) : dropped(rest as Dropped)),
  };
}

function stillThere({ id, subscriber, state, ...entry }: Entry): Delivery {
  const attempts = entry.lastAttempts.map(readAttempt);
  // The time of the first attempt is `first` if this attempt has failed, and `began` if it is still under way. Both are
  // undefined if nothing was attempted yet, or if a Ruby Routemaster made the first attempt.
  const first = entry.firstAttempt === undefined ? undefined : readAttempt(entry.firstAttempt).at;
  const began = entry.attempts === 1 ? entry.heldMs : undefined;
  const opened_at = entry.createdMs ?? 0;
  return {
    id,
    subscriber,
    state,
    opened_at,
    closed_at: state === 'open' ? null : (entry.closedMs ?? opened_at),
    first_attempt_at: first ?? began ?? null,
    last_attempt_at: entry.heldMs ?? attempts.at(-1)?.at ?? null,
    ended_at: entry.diedMs ?? null,
    event_count: entry.events ?? 0,
    bytes: null,
    topics: null,
    attempt_count: entry.attempts ?? 0,
    attempts,
    reason: entry.reason ?? null,
  };
}

function taken([bytes, at, status, duration_ms, first, failed = []]: Taken, attemptCount: number) {
  const last: Attempt = { at, status, duration_ms, reason: null, answer: null };
  return {
    first_attempt_at: first ?? (attemptCount === 1 ? at : null),
    last_attempt_at: at,
    bytes,
    attempts: [...failed, last],
    reason: null,
  };
}

function dropped([reason, first, attempts = []]: Dropped) {
  return {
    first_attempt_at: first ?? null,
    last_attempt_at: attempts.at(-1)?.at ?? null,
    bytes: null,
    attempts,
    reason,
  };
}

function readAttempt(json: string): AttemptReport {
  return JSON.parse(json);
}
