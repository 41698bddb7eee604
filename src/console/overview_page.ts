import { type Content, type Html, html } from '../html.ts';
import type { History } from '../metrics/history.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import { ALL, type Route } from '../routing/route.ts';
import { type Memory, type MemoryLimits, readFullestMemory } from '../store/memory.ts';
import type { Partitions } from '../store/partitions.ts';
import { countProcesses, type ProcessCounts } from '../store/presence.ts';
import type { ApiCalls } from './api_calls.ts';
import { type Complaint, complaintsOf, type State } from './complaints.ts';
import { bytes, count, duration, number, past } from './format.ts';
import { live } from './layout.ts';
import { page } from './page.ts';
import { ANY_QUERY, boxes, pathWith } from './parts.ts';
import { isAsked, plots } from './plots.ts';

export interface OverviewParts {
  partitions: Partitions;
  limits: MemoryLimits;
  history: Pick<History, 'latest'>;
}

export function overviewPage({ api, ...parts }: OverviewParts & { api: ApiCalls }): Route[] {
  return [
    page('/console', ALL, {
      query: ANY_QUERY,
      async show(call) {
        const { range } = call.query;
        const [state, history] = await Promise.all([
          isAsked('now', call.query) && readState(parts),
          isAsked('plots', call.query) && api.call<HistoryReport>('GET /history', call, { query: { range } }),
        ]);
        return {
          title: 'Overview',
          current: '/console',
          body: [
            state && live('overview', pathWith('/console', { part: 'now' }), stateShown(state)),
            history && plots(history.body, '/console'),
          ],
        };
      },
    }),
  ];
}

/**
 * What the overview shows: the state of the bus, and how many web and worker processes are alive. `processes` is
 * undefined if Redis does not let the bus count them.
 */
interface Shown extends State {
  processes: ProcessCounts | undefined;
}

function stateShown(state: Shown): Content {
  const complaints = complaintsOf(state);
  return [
    html`<h1>${sentence(state, complaints)}</h1>`,
    complaints.length > 0 &&
      html`<ul class="complaints">${complaints.map(({ text, advice }) => html`<li><b>${text}</b> ${advice}</li>`)}</ul>`,
    figuresOf(state),
  ];
}

async function readState({ partitions, limits, history }: OverviewParts): Promise<Shown> {
  const [latest, { memory, missing }, time, processes] = await Promise.all([
    history.latest(),
    readFullestMemory(partitions, limits),
    partitions.control.command((redis) => redis.time()),
    countProcesses(partitions.control),
  ]);
  const ageMs = latest ? Number(time[0]) * 1000 - latest.atMs : 0;
  return { figures: latest?.figures, ageMs, memory, missing, processes };
}

function sentence({ figures }: State, complaints: readonly Complaint[]): string {
  const [first] = complaints;
  if (!first) return 'All is well.';
  if (!figures || complaints.length === 1) return first.text;
  return `${complaints.length} things need a look.`;
}

function figuresOf({ figures, ageMs, memory, processes }: Shown): Html {
  const shown: [string, Content][] = [
    ['Queued', figures ? count(figures.queued, 'event') : '–'],
    ['Oldest', figures && figures.oldestSeconds > 0 ? duration(figures.oldestSeconds * 1000) : '–'],
    ['Subscribers', figures ? number(figures.subscribers) : '–'],
    ['Dead letters', figures ? number(figures.deadLetters) : '–'],
    ['Memory', memoryShown(memory)],
    ['Processes', processes ? processesShown(processes) : 'unknown'],
  ];
  return html`${boxes(shown)}
${memory.max > 0 && html`<p class="hint">${marksOf(memory)}</p>`}
${!processes && html`<p class="hint">${UNCOUNTED}</p>`}
<p class="hint">${figures && html`As of ${past(ageMs)}; sampled every ten seconds.`}</p>`;
}

/** Why the processes are not counted, and what to do. */
const UNCOUNTED =
  'Redis does not let the bus count its processes: its user lacks PUBSUB. docs/operating.md has the ACL that the bus needs.';

function processesShown({ web, worker }: ProcessCounts): Content {
  return html`<span class="whole">${number(web)} web,</span> <span class="whole">${count(worker, 'worker')}</span>`;
}

function memoryShown({ used, max, lowMark, highMark }: Memory): Content {
  if (max === 0) return bytes(used);
  const text = `${bytes(used)} of ${bytes(max)}`;
  return html`${text} <meter min="0" max="${max}" low="${lowMark}" high="${highMark}" optimum="0" value="${used}" aria-label="Memory used">${text}</meter>`;
}

/** Returns a text that says above which memory size the bus begins to drop data, and at which size it stops. */
function marksOf({ lowMark, highMark }: Memory): string {
  return `When memory is above ${bytes(highMark)}, publishes are refused and the oldest batches are dropped, until it is down to ${bytes(lowMark)}.`;
}
