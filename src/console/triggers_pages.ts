import { z } from 'zod';
import { BusError } from '../errors.ts';
import type { TriggerReport } from '../flow/trigger_report.ts';
import { type Content, type Html, html } from '../html.ts';
import { ALL, BOTH, CLIENTS, type Input, type Route } from '../route.ts';
import type { ApiCalls } from './api_calls.ts';
import { ago, duration, number } from './format.ts';
import { live } from './layout.ts';
import { action, page } from './page.ts';
import { ANY_FIELDS, ANY_QUERY, boxes, confirmed, form, nextPage, pathWith, table, typeIt } from './parts.ts';
import { type Ruled, rulesChange, rulesForm } from './rules_form.ts';

const PATH = '/console/triggers';
/** Number of next due times that the page of a trigger shows. */
const PREVIEW = 5;

const NAME: Input<{ name: string }> = {
  schema: z.object({ name: z.string() }),
  wording: { code: 'trigger_not_found', whole: 'there is no such trigger' },
};

const RULED: Ruled = { path: PATH, what: 'trigger' };
const EXAMPLE = {
  topic: 'reports',
  event: { type: 'noop', url: 'https://shop.example.com/reports/daily' },
  schedule: { cron: '0 9 * * MON-FRI', timezone: 'Europe/London' },
};

type Trigger = TriggerReport & { preview?: number[] };
/** A trigger without its event, because the event may be long. */
type Listed = Omit<TriggerReport, 'event'>;

/** A page that lists the triggers, and a page for each trigger with its next due times. */
export function triggersPages({ api }: { api: ApiCalls }): Route[] {
  return [
    page(PATH, ALL, {
      query: ANY_QUERY,
      async show(call) {
        const query = { limit: '100', ...call.query };
        const { body, next } = await api.call<Listed[]>('GET /triggers', call, {
          query,
          keep: ({ event: _, ...listed }: Trigger): Listed => listed,
        });
        const nowMs = Date.now();
        const rows = table<Listed>(
          [
            { name: 'Trigger', cell: linkTo },
            { name: 'State', cell: stateOf },
            { name: 'Client', cell: ({ client }) => client && html`<span class="mono">${client}</span>` },
            { name: 'When', cell: scheduleOf },
            { name: 'Publishes to', cell: ({ topic }) => html`<span class="mono">${topic}</span>` },
            { name: 'Next', cell: ({ next_at }) => next_at !== null && ago(next_at, nowMs) },
            { name: 'Last', cell: ({ last_at }) => ago(last_at, nowMs) },
            { name: 'Fired', isAmount: true, cell: ({ fired }) => number(fired) },
            { name: 'Missed', isAmount: true, cell: ({ missed }) => number(missed) },
          ],
          body,
          html`There is no trigger yet. A client makes one by <code>PUT /triggers/:name</code>.`,
        );
        return {
          title: 'Triggers',
          current: PATH,
          body: live('triggers', pathWith(PATH, call.query), [
            html`<h1>Triggers</h1>`,
            rows,
            nextPage(PATH, next),
            api.allows('PUT /triggers/:name', call) && rulesForm(call, RULED, EXAMPLE),
          ]),
        };
      },
    }),
    page(`${PATH}/:name`, ALL, {
      params: NAME,
      query: ANY_QUERY,
      async show(call) {
        const { name } = call.params;
        const { client } = call.query;
        const { body } = await api.call<Trigger>('GET /triggers/:name', call, {
          params: { name },
          query: { client, preview: String(PREVIEW) },
        });
        const path = `${PATH}/${encodeURIComponent(name)}`;
        const does = body.paused ? 'Resume' : 'Pause';
        const forms = [
          api.allows('POST /triggers/:name/fire', call) &&
            form(call, { action: `${path}/fire`, does: 'Fire now' }),
          api.allows('PUT /triggers/:name', call) &&
            form(call, { action: `${path}/${does.toLowerCase()}`, does }),
        ];
        const removing =
          api.allows('DELETE /triggers/:name', call) &&
          confirmed(call, 'Remove this trigger…', 'It fires no more. What it published stays.', {
            action: `${path}/remove`,
            does: `Remove ${name}`,
            content: [typeIt(name), html`<input type="hidden" name="client" value="${client}">`],
          });
        return {
          title: name,
          current: PATH,
          body: [
            live('trigger', pathWith(path, { client }), [
              shown(body),
              html`<div class="acts">${forms}</div>`,
            ]),
            api.allows('PUT /triggers/:name', call) && rulesForm(call, RULED, rulesOf(body), name),
            removing,
          ],
        };
      },
    }),
    action(`${PATH}/:name/fire`, CLIENTS, {
      action: 'trigger.fire',
      params: NAME,
      form: ANY_FIELDS,
      async act(call) {
        await api.call('POST /triggers/:name/fire', call, { params: call.params });
        return `${PATH}/${encodeURIComponent(call.params.name)}`;
      },
    }),
    rulesChange({ api }, RULED),
    pauseOr('pause'),
    pauseOr('resume'),
    action(`${PATH}/:name/remove`, BOTH, {
      action: 'trigger.delete',
      params: NAME,
      form: ANY_FIELDS,
      async act(call) {
        const { name } = call.params;
        if (call.body.confirm !== name)
          throw new BusError('bad_body', `type ${name} to remove this trigger; nothing was changed`);
        const query = { client: String(call.body.client ?? '') };
        await api.call('DELETE /triggers/:name', call, { params: { name }, query });
        return PATH;
      },
    }),
  ];

  /** Makes the route of a form that pauses or resumes a trigger. Nothing else of the trigger changes. */
  function pauseOr(does: 'pause' | 'resume'): Route {
    return action(`${PATH}/:name/${does}`, CLIENTS, {
      action: 'trigger.put',
      params: NAME,
      form: ANY_FIELDS,
      async act(call) {
        const { params } = call;
        const { body } = await api.call<Trigger>('GET /triggers/:name', call, { params });
        await api.call('PUT /triggers/:name', call, {
          params,
          body: { ...rulesOf(body), paused: does === 'pause' },
        });
        return `${PATH}/${encodeURIComponent(params.name)}`;
      },
    });
  }
}

/** Returns the rules of a trigger, which are the part of it that its client can change. */
function rulesOf({ topic, event, schedule, start, end, offset, catch_up, paused }: Trigger): object {
  return { topic, event, schedule, start, end, offset, catch_up, paused };
}

function linkTo({ name, client }: Listed): Html {
  const path = pathWith(`${PATH}/${encodeURIComponent(name)}`, { client });
  return html`<a class="mono" href="${path}">${name}</a>`;
}

function stateOf({ paused, next_at, last_error }: Listed): Html {
  if (last_error) return html`<span class="state bad">failed: ${last_error.code}</span>`;
  if (paused) return html`<span class="state warn">paused</span>`;
  if (next_at === null) return html`<span class="state good">done</span>`;
  return html`<span class="state good">running</span>`;
}

function scheduleOf({ schedule }: Listed): Content {
  if ('cron' in schedule) return html`<span class="mono">${schedule.cron}</span> ${schedule.timezone}`;
  if ('every' in schedule) return `every ${duration(schedule.every)}`;
  return html`once, ${new Date(schedule.at).toISOString()}`;
}

function shown(trigger: Trigger): Html {
  const nowMs = Date.now();
  const shown: [string, Content][] = [
    ['State', stateOf(trigger)],
    ['Last', ago(trigger.last_at, nowMs)],
    ['Fired', number(trigger.fired)],
    ['Missed', number(trigger.missed)],
  ];
  return html`<h1 class="mono">${trigger.name}</h1>
${boxes(shown)}
<h2>Next times</h2>
${trigger.preview?.length ? html`<ol>${trigger.preview.map((at) => html`<li>${ago(at, nowMs)} <span class="hint">${new Date(at).toISOString()}</span></li>`)}</ol>` : html`<p class="none">none</p>`}
<h2>Rules</h2>
<dl class="settings card"><dt>When</dt><dd>${scheduleOf(trigger)}</dd><dt>Publishes to</dt><dd class="mono">${trigger.topic}</dd>
<dt>After an outage</dt><dd>${trigger.catch_up}</dd></dl>
<h2>Its event</h2><pre tabindex="0">${JSON.stringify(trigger.event, null, 2)}</pre>`;
}
