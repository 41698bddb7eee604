import type { Config } from '../config.ts';
import { StorageUnavailable } from '../errors.ts';
import type { JoinReport } from '../flow/joins/join_report.ts';
import { type Content, type Html, html } from '../html.ts';
import type { History } from '../metrics/history.ts';
import type { HistoryReport } from '../metrics/history_api.ts';
import { clientOf } from '../routing/caller.ts';
import { ALL, type Route } from '../routing/route.ts';
import { type Memory, type MemoryLimits, readFullestMemory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { Partitions } from '../store/partitions.ts';
import { countProcesses, type ProcessCounts } from '../store/presence.ts';
import { countReplicas } from '../store/replicas.ts';
import type { SubscriberReport } from '../subscribing/subscriber_report.ts';
import { sumOf } from '../sum.ts';
import type { ApiCalls, PageCall } from './api_calls.ts';
import { type Complaint, complaintsOf, DROPS_TOLD_MS, type State } from './complaints.ts';
import { bytes, count, duration, number, past } from './format.ts';
import { live } from './layout.ts';
import { page } from './page.ts';
import { boxes, pathWith } from './parts.ts';
import { isAsked, plots } from './plots.ts';
import { stateOfReport } from './subscribers_pages.ts';

export interface OverviewParts {
  partitions: Partitions;
  limits: MemoryLimits & Pick<Config, 'minReplicas'>;
  history: Pick<History, 'latest' | 'droppedWithin'>;
}

export function overviewPage({ api, ...parts }: OverviewParts & { api: ApiCalls }): Route {
  return page('/console', ALL, async (call) => {
    const { range } = call.query;
    const client = clientOf(call.caller);
    const [state, own, history] = await Promise.all([
      isAsked('now', call.query) && readState(parts, api),
      isAsked('now', call.query) && client !== undefined && readOwn(api, call, client),
      isAsked('plots', call.query) && api.call<HistoryReport>('GET /history', call, { query: { range } }),
    ]);
    return {
      title: 'Overview',
      current: '/console',
      body: [
        state && live('overview', pathWith('/console', { part: 'now' }), stateShown({ ...state, ...own })),
        history && client !== undefined && html`<h2>The whole bus</h2>`,
        history && plots(history.body, '/console'),
      ],
    };
  });
}

function stateShown(state: State): Content {
  const complaints = complaintsOf(state);
  return [
    html`<h1>${sentence(state, complaints)}</h1>`,
    complaints.length > 0 &&
      html`<ul class="complaints">${complaints.map(({ text, advice }) => html`<li><b>${text}</b> ${advice}</li>`)}</ul>`,
    figuresOf(state),
  ];
}

/**
 * Reads figures of the whole bus, which every visitor may see. They are read from Redis because no API call returns
 * them: `GET /metrics` has only some of them, as text.
 */
async function readState({ partitions, limits, history }: OverviewParts, api: ApiCalls): Promise<State> {
  const min = limits.minReplicas;
  const heads = partitions.byRedis().map(([one]) => one);
  const [latest, dropped, { memory, away }, counted, nowMs, processes, refusal] = await Promise.all([
    history.latest(),
    history.droppedWithin(DROPS_TOLD_MS),
    readFullestMemory(partitions, limits),
    min > 0 ? partitions.reach((head) => head.command(countReplicas), heads) : { found: [min] },
    api.nowMs(),
    countProcesses(partitions.control),
    refusalOfCommands(partitions),
  ]);
  const ageMs = latest && nowMs - latest.atMs;
  const replicas = { fewest: Math.min(...counted.found), min };
  return { figures: latest?.figures, ageMs, memory, away, replicas, processes, dropped, refusal };
}

/**
 * Asks each Redis whether it refuses writes or commands. Resolves with the partitions of those that do, and with the
 * first word of the error. If several Redises refuse, the word is from the first of them.
 */
export async function refusalOfCommands(partitions: Partitions): Promise<State['refusal']> {
  const groups = partitions.byRedis();
  const words = await Promise.all(groups.map(([head]) => wordOfRefusal(head)));
  const refusing = groups.filter((_, index) => words[index] !== undefined);
  const word = words.find((each) => each !== undefined);
  if (word === undefined) return undefined;
  return { word, partitions: refusing.length < groups.length ? refusing.flat() : undefined };
}

/** Resolves with the word with which Redis refuses writes or commands. Undefined if it does not, or is away. */
async function wordOfRefusal(partition: Partition): Promise<string | undefined> {
  try {
    await partition.expectCommands();
    return undefined;
  } catch (error) {
    if (!(error instanceof StorageUnavailable)) throw error;
    return /refuses commands \((\w+)\)$/.exec(error.why)?.[1];
  }
}

/**
 * Resolves with the figures and dropped events of the client that looks at the page. Both are undefined if the client's
 * partition is away.
 */
async function readOwn(
  api: ApiCalls,
  call: PageCall,
  client: string,
): Promise<Pick<State, 'client' | 'figures' | 'dropped'>> {
  try {
    const [nowMs, subscribers, joins] = await Promise.all([
      api.nowMs(),
      api.call<SubscriberReport[]>('GET /subscribers', call),
      api.call<JoinReport[]>('GET /joins', call),
    ]);
    const [report] = subscribers.body;
    const letters = [report, ...joins.body].map((each) => each?.dead_letters.batches ?? 0);
    const { queued, oldest } = report?.events ?? { queued: 0, oldest: null };
    const state = report && stateOfReport(report);
    const figures = {
      subscribers: subscribers.body.length,
      queued,
      oldestSeconds: oldest === null ? 0 : Math.max(0, nowMs - oldest) / 1000,
      failing: Number(state === 'failing'),
      paused: Number(state === 'paused'),
      deadLetters: sumOf(letters),
    };
    return { client, figures, dropped: droppedLately(report, joins.body, nowMs) };
  } catch (error) {
    if (error instanceof StorageUnavailable) return { client, figures: undefined, dropped: undefined };
    throw error;
  }
}

function droppedLately(
  report: SubscriberReport | undefined,
  joins: readonly JoinReport[],
  nowMs: number,
): State['dropped'] {
  const isLate = ({ atMs }: { atMs: number }) => nowMs - atMs <= DROPS_TOLD_MS;
  const { events = 0, last_at } = report?.dropped ?? {};
  const own = [{ events, atMs: last_at ?? 0 }].filter(isLate);
  const ofJoins = joins
    .map(({ dropped, dropped_at }) => ({ events: dropped, atMs: dropped_at ?? 0 }))
    .filter(isLate);
  const all = [...own, ...ofJoins];
  if (all.length === 0) return undefined;
  const lastMs = Math.max(...all.map(({ atMs }) => atMs));
  return { events: eventsIn(all), agoMs: Math.max(0, nowMs - lastMs), ofJoins: eventsIn(ofJoins) };
}

function eventsIn(drops: readonly { events: number }[]): number {
  return sumOf(drops.map(({ events }) => events));
}

function sentence({ figures }: State, complaints: readonly Complaint[]): string {
  const [first] = complaints;
  if (!first) return 'All is well.';
  if (!figures || complaints.length === 1) return first.text;
  return `${complaints.length} things need a look.`;
}

function figuresOf({ figures, ageMs, memory, processes, client }: State): Html {
  const [own, ofBus] = client === undefined ? ['', ''] : [' for you', ' of the bus'];
  const shown = boxes([
    [`Queued${own}`, figures ? count(figures.queued, 'event') : '–'],
    [`Oldest${own}`, figures && figures.oldestSeconds > 0 ? duration(figures.oldestSeconds * 1000) : '–'],
    client === undefined && ['Subscribers', figures ? number(figures.subscribers) : '–'],
    [`Dead letters${own}`, figures ? number(figures.deadLetters) : '–'],
    [`Memory${ofBus}`, memoryShown(memory)],
    [`Processes${ofBus}`, processes ? processesShown(processes) : 'unknown'],
  ]);
  return html`${shown}
${figures?.subscribers === 0 && client === undefined && html`<p class="hint">${FIRST_STEPS}</p>`}
${memory.max > 0 && html`<p class="hint">${marksOf(memory)}</p>`}
${!processes && client === undefined && html`<p class="hint">${UNCOUNTED}</p>`}
<p class="hint">${ageMs !== undefined && client === undefined && html`As of ${past(ageMs)}; sampled every ten seconds.`}</p>`;
}

const FIRST_STEPS = html`Nobody subscribes yet. Root makes clients under <a href="/console/clients">Clients</a>; the <a href="/docs">API</a> shows how they subscribe and publish.`;

const UNCOUNTED =
  'Redis does not let the bus count its processes: its user lacks PUBSUB. docs/operating.md has the ACL that the bus needs.';

function processesShown({ web, worker }: ProcessCounts): Content {
  return html`<span class="whole">${number(web)} web,</span> <span class="whole">${count(worker, 'worker')}</span>`;
}

function memoryShown({ used, max, lowMark, highMark }: Memory): Content {
  if (max === 0) return bytes(used);
  const text = `${bytes(used)} of ${bytes(max)}`;
  return html`<span class="whole">${bytes(used)}</span> of <span class="whole">${bytes(max)}</span> <meter min="0" max="${max}" low="${lowMark}" high="${highMark}" optimum="0" value="${used}" aria-label="Memory used">${text}</meter>`;
}

function marksOf({ lowMark, highMark }: Memory): string {
  return `When memory is above ${bytes(highMark)}, publishes are refused and the oldest batches are dropped, until it is down to ${bytes(lowMark)}.`;
}
