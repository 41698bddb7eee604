import type { TriggerBody } from '../flow/triggers/trigger_input.ts';
import type { TriggerReport } from '../flow/triggers/trigger_report.ts';
import { type Content, type Html, html } from '../html.ts';
import { BOTH, type Route } from '../routing/route.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { readableJson } from './fields.ts';
import { ago, exactDuration, number } from './format.ts';
import { pathOf } from './links.ts';
import { action, forwarding } from './page.ts';
import { boxes, type Columns, form } from './parts.ts';
import { auditedOwner, change, listing, pageOfOne, removal } from './ruled_pages.ts';

const PATH = '/console/triggers';
/** How many future firings the page of a trigger shows. */
const PREVIEW = '5';

type Trigger = TriggerReport & { preview?: number[] };
/** A trigger without its event, which may be long. */
type Listed = Omit<TriggerReport, 'event'>;

const EXAMPLE = {
  topic: 'reports',
  event: { type: 'noop', url: 'https://shop.example.com/reports/daily' },
  schedule: { cron: '0 9 * * MON-FRI', timezone: 'Europe/London' },
};

/**
 * The listing of triggers, and a page for each trigger with the next times at which it fires. `maxBytes` is the maximum
 * length of a form with an event.
 */
export function triggersPages(api: ApiCalls, maxBytes: number): Route[] {
  return [
    listing(api, 'trigger', EXAMPLE, columns, ({ event: _, ...listed }: Trigger): Listed => listed),
    pageOfTrigger(api),
    change(api, 'trigger', rulesOf, maxBytes),
    removal(api, 'trigger'),
    forwarding(api, 'POST /triggers/:name/fire', `${PATH}/:name/fire`, {
      asked: (call) => ({ query: auditedOwner(call, call.params.name) }),
      next: ({ params, body }) => pathOf('trigger', params.name, String(body.client ?? ''), 'yes'),
    }),
    pauseOr('pause'),
    pauseOr('resume'),
  ];

  function pauseOr(does: 'pause' | 'resume'): Route {
    return action(`${PATH}/:name/${does}`, BOTH, {
      action: 'trigger.put',
      async act(call) {
        const asked = call.params;
        const query = auditedOwner(call, asked.name);
        const { body } = await api.call<Trigger>('GET /triggers/:name', call, { params: asked, query });
        await api.call('PUT /triggers/:name', call, {
          params: asked,
          query,
          body: { ...rulesOf(body), paused: does === 'pause' },
        });
        return pathOf('trigger', asked.name, query.client);
      },
    });
  }
}

function columns(nowMs: number, isOwn: boolean): Columns<Listed> {
  return [
    { name: 'Trigger', cell: linkTo },
    { name: 'State', cell: triggerState },
    !isOwn && { name: 'Client', cell: ({ client }) => client && html`<span class="mono">${client}</span>` },
    { name: 'When', cell: scheduleOf },
    { name: 'Publishes to', cell: ({ topic }) => html`<span class="mono">${topic}</span>` },
    { name: 'Next', cell: ({ next_at }) => next_at !== null && ago(next_at, nowMs) },
    { name: 'Last', cell: ({ last_at }) => ago(last_at, nowMs) },
    { name: 'Fired when due', isAmount: true, cell: ({ fired }) => number(fired) },
    { name: 'Missed', isAmount: true, cell: ({ missed }) => number(missed) },
  ];
}

function pageOfTrigger(api: ApiCalls): Route {
  return pageOfOne(api, 'trigger', async (call, own) => {
    const { body: trigger } = await api.call<Trigger>('GET /triggers/:name', call, {
      params: call.params,
      query: { client: call.query.client, preview: PREVIEW },
    });
    const acts = api.allows('PUT /triggers/:name', call) && actsOn(call, trigger, own);
    const now = shown(trigger, acts, await api.nowMs());
    return { now, rules: rulesOf(trigger), warning: 'It fires no more. What it published stays.' };
  });
}

function actsOn(call: PageCall, { name, paused }: Trigger, own: Html): Content {
  const path = pathOf('trigger', name, undefined);
  const does = paused ? 'Resume' : 'Pause';
  return [
    form(call, { action: `${path}/fire`, does: 'Fire now', content: own }),
    form(call, { action: `${path}/${does.toLowerCase()}`, does, content: own }),
  ];
}

function rulesOf(trigger: Trigger): Record<keyof TriggerBody, unknown> {
  const { topic, event, schedule, start, end, offset, catch_up, paused } = trigger;
  return { topic, event, schedule, start, end, offset, catch_up, paused };
}

function linkTo({ name, client }: Listed): Html {
  return html`<a class="mono" href="${pathOf('trigger', name, client)}">${name}</a>`;
}

function triggerState({ paused, next_at, last_error }: Listed): Html {
  if (last_error) return html`<span class="state bad">failed: ${last_error.code}</span>`;
  if (paused) return html`<span class="state warn">paused</span>`;
  if (next_at === null) return html`<span class="state good">done</span>`;
  return html`<span class="state good">running</span>`;
}

function scheduleOf({ schedule }: Listed): Content {
  if ('cron' in schedule) return html`<span class="mono">${schedule.cron}</span> ${schedule.timezone}`;
  if ('every' in schedule) return `every ${exactDuration(schedule.every)}`;
  return html`once, ${new Date(schedule.at).toISOString()}`;
}

function shown(trigger: Trigger, acts: Content, nowMs: number): Html {
  const figures = boxes([
    ['State', triggerState(trigger)],
    ['Last', ago(trigger.last_at, nowMs)],
    ['Fired when due', number(trigger.fired)],
    ['Missed', number(trigger.missed)],
  ]);
  return html`<h1 class="mono">${trigger.name}</h1>
${figures}
<h2>Next times</h2>
${trigger.preview?.length ? html`<ol>${trigger.preview.map((at) => html`<li>${ago(at, nowMs)} <span class="hint">${new Date(at).toISOString()}</span></li>`)}</ol>` : html`<p class="none">none</p>`}
<h2>Rules</h2>
<dl class="settings card">${trigger.client && html`<dt>Client</dt><dd class="mono">${trigger.client}</dd>`}<dt>When</dt><dd>${scheduleOf(trigger)}</dd><dt>Publishes to</dt><dd class="mono">${trigger.topic}</dd>
<dt>After an outage</dt><dd>${trigger.catch_up}</dd></dl>
<h2>Its event</h2><pre tabindex="0">${readableJson(trigger.event)}</pre>
<div class="acts">${acts}</div>`;
}
