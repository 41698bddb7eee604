import { type Html, html } from '../html.ts';
import type { ListedJob } from '../records/jobs.ts';
import { type Route, WATCHERS } from '../routing/route.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago } from './format.ts';
import { linkToQueue } from './links.ts';
import { listingPage } from './listing_page.ts';
import { forwarding } from './page.ts';
import { backTo, type Column, choices, form, pathWith } from './parts.ts';

const PATH = '/console/jobs';

const CHOICES = {
  '': 'All jobs',
  pending: 'Held by a worker',
  instant: 'Ready',
  waiting: 'Waiting',
  scheduled: 'For later',
} as const;

/** A page that lists jobs with their states and the workers that hold them. */
export function jobsPages(api: ApiCalls): Route[] {
  const listing = { path: PATH, roles: WATCHERS, title: 'Jobs', name: 'GET /jobs', liveId: 'jobs' } as const;
  return [
    listingPage<ListedJob>(api, listing, (call, nowMs) => {
      const mayRun = api.allows('POST /jobs/:id/run', call);
      const runNow = ({ id, state }: ListedJob) =>
        mayRun &&
        state === 'scheduled' &&
        form(call, { action: `${PATH}/${encodeURIComponent(id)}/run`, does: 'Run now' });
      return {
        above: [
          html`<h1>Queues and workers</h1>`,
          choices(CHOICES, call.query.state ?? '', (state) => pathWith(PATH, { state })),
        ],
        columns: [...columnsAt(nowMs), { name: '', cell: runNow }],
        empty: 'Nothing is queued here. Each batch has a job from its opening until it is taken.',
      };
    }),
    forwarding(api, 'POST /jobs/:id/run', `${PATH}/:id/run`, { next: (call) => backTo(PATH, call) }),
  ];
}

function columnsAt(nowMs: number): Column<ListedJob>[] {
  return [
    {
      name: 'Job',
      cell: ({ name, arguments: [first] }) => html`${name} ${argumentOf(name, String(first ?? ''))}`,
    },
    {
      name: 'Queue',
      cell: ({ queue, partition }) => (partition === undefined ? queue : `${queue}, partition ${partition}`),
    },
    { name: 'State', cell: jobState },
    { name: 'Subscriber', cell: ({ subscriber }) => subscriber && linkToQueue(subscriber) },
    { name: 'Attempts', isAmount: true, cell: ({ attempts }) => attempts },
    { name: 'Worker', cell: ({ worker }) => worker && html`<span class="mono">${worker}</span>` },
    { name: 'Since', cell: ({ since }) => since !== null && ago(since, nowMs) },
    { name: 'Due', cell: ({ due }) => due !== null && ago(due, nowMs) },
  ];
}

function argumentOf(name: string | null, argument: string): Html {
  return name === 'batch'
    ? html`<a class="mono" href="/console/deliveries/${encodeURIComponent(argument)}">${argument}</a>`
    : html`<span class="mono">${argument}</span>`;
}

function jobState({ state, paused }: ListedJob): string {
  if (state !== 'waiting') return CHOICES[state];
  return paused ? 'Its subscriber is paused' : 'Waiting for its turn';
}
