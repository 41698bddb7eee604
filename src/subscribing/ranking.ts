import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import type { Standing, Standings } from '../metrics/standings.ts';
import type { Rank } from '../routing/picking.ts';
import type { SubscriberReport } from './subscriber_report.ts';

/** The states of a subscriber. The state that most urgently needs the attention of an operator comes first. */
export const SUBSCRIBER_STATES = ['failing', 'paused', 'recovering', 'healthy'] as const;
export type SubscriberState = (typeof SUBSCRIBER_STATES)[number];

export function subscriberState(of: Pick<Standing, 'isPaused' | 'healthPoints' | 'queued'>): SubscriberState {
  if (of.isPaused) return 'paused';
  if (of.healthPoints >= PERFECT_HEALTH) return 'healthy';
  return of.queued > 0 ? 'failing' : 'recovering';
}

/**
 * For each way to sort subscribers, a function that returns the value to sort by. The smallest value comes first, and
 * equal values are sorted by token.
 */
const VALUES = {
  name: () => 0,
  queued: ({ queued }) => -queued,
  oldest: ({ oldestAtMs }) => oldestAtMs ?? LAST,
  rate: ({ delivered }) => -delivered,
  success: (each) => successOf(each) ?? LAST,
  health: ({ healthPoints }) => healthPoints,
  dead_letters: ({ deadLetters }) => -deadLetters,
  bytes: ({ bytes }) => -bytes,
  state: (each) => SUBSCRIBER_STATES.indexOf(subscriberState(each)),
  drained: (each) => -(each.queued === 0 ? 0 : (drainMs(each, each.queued) ?? LAST)),
} satisfies Record<string, (of: Standing) => number>;
const LAST = Number.MAX_SAFE_INTEGER;

export type SubscriberSort = keyof typeof VALUES;
export const SUBSCRIBER_SORTS = Object.keys(VALUES) as [SubscriberSort, ...SubscriberSort[]];

/** Returns the values by which a listing with this `sort` orders a subscriber: the figure, then the token. */
export function subscriberRank(sort: SubscriberSort, standing: Standing): Rank {
  return { value: VALUES[sort](standing), name: standing.token };
}

/**
 * Returns the figures for a subscriber that is newer than the last run of the job `sample`: an empty queue and perfect
 * health.
 */
export function unknownStanding(token: string): Standing {
  return {
    token,
    queued: 0,
    oldestAtMs: null,
    deadLetters: 0,
    bytes: 0,
    healthPoints: PERFECT_HEALTH,
    isPaused: false,
    delivered: 0,
    failed: 0,
    growth: 0,
    totalDelivered: 0,
    totalFailed: 0,
    sinceMs: 0,
  };
}

/** False for the figures that `unknownStanding` returns. */
export function isSampled({ sinceMs }: Standing): boolean {
  return sinceMs > 0;
}

function successOf({ delivered, failed }: Standing): number | undefined {
  return delivered + failed === 0 ? undefined : delivered / (delivered + failed);
}

const MAX_FORECAST_MS = 30 * 86_400_000;
/**
 * A queue counts as shrinking if it loses at least one event a minute (growth is in events a second). A slower loss may
 * not be real: growth is a running mean, and is still a little below 0 for minutes after a queue has stopped shrinking.
 */
const SHRINKING = -1 / 60;

/**
 * Returns the time (ms) in which a queue will be empty if it keeps shrinking at the present rate. Returns undefined if
 * deliveries do not shrink the queue, or if emptying it would take longer than a month.
 */
function drainMs({ growth, delivered, isPaused }: Standing, queued: number): number | undefined {
  // Without deliveries, a queue shrinks only by dead letters and dropped batches, which allow no forecast.
  if (isPaused || delivered === 0 || growth > SHRINKING) return undefined;
  return soon((queued * 1000) / -growth);
}

function soon(ms: number): number | undefined {
  return ms >= 0 && ms < MAX_FORECAST_MS ? Math.round(ms) : undefined;
}

/**
 * Returns the field `lately` of a report, from the last run of the job `sample`. The first two figures are means in
 * which the last minute counts most.
 * - `rate`: how many events are delivered a second.
 * - `success`: of the events that the bus tried to deliver, the fraction that the subscriber accepted. Null if the bus
 *   tried none.
 * - `drained_at`: when the queue will probably be empty.
 * - `dropped_at`: when memory will probably be so full that data is dropped. Given only for a queue that has events but
 *   no `drained_at`.
 */
export function latelyOf(
  standing: Standing,
  { events: { queued } }: Pick<SubscriberReport, 'events'>,
  { atMs, memory }: Pick<Standings, 'atMs' | 'memory'>,
) {
  const drained = queued > 0 ? drainMs(standing, queued) : undefined;
  const left = memory.highMark === null ? Number.NaN : Math.max(0, memory.highMark - memory.used);
  const full = queued > 0 && drained === undefined ? soon((left * 1000) / memory.growth) : undefined;
  return {
    rate: standing.delivered,
    success: successOf(standing) ?? null,
    drained_at: drained === undefined ? null : atMs + drained,
    dropped_at: full === undefined ? null : atMs + full,
    as_of: atMs,
  };
}
