import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import { type Content, type Html, html } from '../html.ts';
import { ALL, type Route } from '../routing/route.ts';
import { type SubscriberSort, type SubscriberState, subscriberState } from '../subscribing/ranking.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, bytes, duration, number } from './format.ts';
import { linkToSubscriber } from './links.ts';
import { FIRST_PAGE, listingPage } from './listing_page.ts';
import { type Column, choices, NONE, nameForm, pathWith, rateOf } from './parts.ts';

export const PATH = '/console/subscribers';
const FIRST_SORT: SubscriberSort = 'queued';

const STATES = {
  '': 'All',
  failing: 'Failing',
  paused: 'Paused',
  recovering: 'Recovering',
  healthy: 'Healthy',
} as const;

/** The list of subscribers, sorted by a column, and filtered by state and name. */
export function subscribersPage(api: ApiCalls): Route {
  const about = { path: PATH, roles: ALL, title: 'Subscribers', name: 'GET /subscribers' } as const;
  const listing = { ...about, query: { ...FIRST_PAGE, sort: FIRST_SORT }, liveId: 'subscribers' };
  return listingPage<SubscriberReport>(api, listing, ({ query, caller }, nowMs, entries) => {
    const { sort, state, name } = query;
    const path = (other: Record<string, string>) => pathWith(PATH, { sort, state, name, ...other });
    const isClient = caller.role === 'client';
    const empty = isClient ? 'You have not subscribed' : 'There is no subscriber';
    return {
      above: [
        html`<h1>Subscribers</h1>`,
        !isClient && [
          nameForm(PATH, { name, sort, state }),
          choices(STATES, state ?? '', (each) => path({ state: each })),
        ],
      ],
      columns: columnsAt(nowMs).map(({ by, ...column }) => ({
        ...column,
        ...(by && { sort: { path: path({ sort: by }), isCurrent: by === (sort ?? FIRST_SORT) } }),
      })),
      empty:
        state || name
          ? html`No subscriber is like this. <a href="${PATH}">Show all</a>.`
          : html`${empty} yet. A client subscribes by <code>POST /subscription</code>.`,
      remark: computedAt(entries, nowMs),
    };
  });
}

type SortedColumn = Column<SubscriberReport> & { by?: SubscriberSort };

function columnsAt(nowMs: number): SortedColumn[] {
  return [
    { name: 'Subscriber', by: 'name', cell: linkToSubscriber },
    { name: 'State', by: 'state', cell: stateLabel },
    { name: 'Queued', by: 'queued', isAmount: true, cell: ({ events }) => number(events.queued) },
    { name: 'Oldest', by: 'oldest', isAmount: true, cell: ({ events }) => waiting(events.oldest, nowMs) },
    { name: 'Delivered', by: 'rate', isAmount: true, cell: rateOf },
    { name: 'Success', by: 'success', isAmount: true, cell: successOf },
    { name: 'Health', by: 'health', isAmount: true, cell: ({ health_points }) => health_points },
    {
      name: 'Dead letters',
      by: 'dead_letters',
      isAmount: true,
      cell: ({ dead_letters }) => number(dead_letters.batches),
    },
    { name: 'Memory', by: 'bytes', isAmount: true, cell: (each) => bytes(memoryOf(each)) },
    { name: 'Forecast', by: 'drained', cell: (each) => forecast(each, nowMs) },
  ];
}

/**
 * If a subscriber has no failures, and its oldest event is younger than this, the page shows `keeps up`. A forecast of
 * when such a short queue is empty would mean nothing.
 */
const KEEPS_UP_MS = 60_000;

const STATE_CLASS = { paused: 'warn', failing: 'bad', recovering: 'warn', healthy: 'good' } as const;

export function stateOfReport({ paused_at, health_points, events }: SubscriberReport): SubscriberState {
  const isPaused = paused_at !== null;
  return subscriberState({ isPaused, healthPoints: health_points, queued: events.queued });
}

export function stateLabel(report: SubscriberReport): Html {
  const state = stateOfReport(report);
  return html`<span class="state ${STATE_CLASS[state]}">${state}</span>`;
}

/** Returns about how many bytes of Redis the queue and the dead letters of a subscriber take. */
export function memoryOf({ bytes: { queued, dead_letters } }: SubscriberReport): number {
  return queued + dead_letters;
}

export function waiting(oldestAtMs: number | null, nowMs: number): Content {
  return oldestAtMs === null ? NONE : duration(Math.max(0, nowMs - oldestAtMs));
}

function successOf({ lately }: SubscriberReport): Content {
  if (!lately || lately.success === null) return NONE;
  // The percentage is rounded down, so that 99.96 % is not shown as 100 %.
  const percent = Math.floor(lately.success * 1000) / 10;
  return `${percent} %`;
}

type Forecast = Pick<SubscriberReport, 'lately' | 'events' | 'paused_at' | 'health_points'>;

/**
 * Returns a forecast by the rates of the last minute or so: when the queue will be empty, or when events will be
 * dropped.
 */
export function forecast(report: Forecast, nowMs: number): Content {
  const { lately, events, paused_at, health_points } = report;
  if (events.queued === 0 || !lately) return NONE;
  const waitsMs = nowMs - (events.oldest ?? nowMs);
  // `success` is null if no delivery was tried lately, for example while the first batch is open. Then the health
  // points say whether the subscriber is well.
  const isWell = lately.success === null ? health_points === PERFECT_HEALTH : lately.success === 1;
  if (paused_at === null && isWell && waitsMs < KEEPS_UP_MS) return 'keeps up';
  if (lately.drained_at !== null) return html`empty ${ago(Math.max(nowMs, lately.drained_at), nowMs)}`;
  if (lately.dropped_at !== null)
    return html`<span class="whole">drops may</span> <span class="whole">begin ${ago(Math.max(nowMs, lately.dropped_at), nowMs)}</span>`;
  return paused_at === null ? 'does not shrink' : 'waits';
}

/** Returns the hint below the list that says over which time the rates are taken, and when they were computed. */
export function computedAt(rows: readonly SubscriberReport[], nowMs: number): Content {
  const asOf = rows.find(({ lately }) => lately)?.lately?.as_of;
  if (rows.length === 0) return undefined;
  if (asOf === undefined)
    return html`<p class="hint">Rates and forecasts appear ten seconds after a worker has started.</p>`;
  return html`<p class="hint">Delivered and Success are means in which the last minute counts most. Order, rates and forecasts are as of ${ago(asOf, nowMs)}; workers look every ten seconds. Memory is an estimate of what the queue and the dead letters take.</p>`;
}
