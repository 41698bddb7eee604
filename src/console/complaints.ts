import { type Content, html } from '../html.ts';
import { type Figures, STEPS } from '../metrics/history.ts';
import type { Memory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { ProcessCounts } from '../store/presence.ts';
import { bytes, count, duration } from './format.ts';
import { pathWith } from './parts.ts';

/**
 * Number of successive samples that must be missing before the overview says that no worker runs. Workers store a
 * sample of the figures every ten seconds.
 */
const MISSED_SAMPLES = 3;
/** The overview complains if an event has waited for its subscriber for more seconds than this. */
const LONG_SECONDS = 60;

/**
 * The state of the bus, from which the overview derives its complaints. `figures` are from the newest sample of the
 * counters, and `ageMs` is its age, undefined without a sample. `memory` is the present memory of the fullest Redis.
 * `missing` are the partitions that cannot be reached. `processes` are those that are connected to Redis, if that is
 * known. If a client looks, `client` is its token, and `figures` are its own.
 */
export interface State {
  figures: OwnFigures | undefined;
  ageMs: number | undefined;
  memory: Memory;
  missing: readonly Partition[];
  processes?: ProcessCounts | undefined;
  client?: string | undefined;
}

/** The figures of a client's own subscriber. `deadLetters` also includes the dead letters of the client's joins. */
type OwnFigures = Pick<
  Figures<'bus'>,
  'queued' | 'oldestSeconds' | 'subscribers' | 'failing' | 'paused' | 'deadLetters'
>;

export interface Complaint {
  text: string;
  /** What the reader should do: a page to look at, or an action to take. */
  advice: Content;
}

/** Returns what is wrong with the bus, the worst first. A client is told nothing of other clients. */
export function complaintsOf(state: State): Complaint[] {
  const { figures, client } = state;
  return [...ofBus(state), ...(figures ? ofSubscribers(figures, client) : [])];
}

function ofBus({ ageMs, memory, missing, processes, client }: State): Complaint[] {
  const found: Complaint[] = [];
  const advise = (advice: string) =>
    client === undefined ? advice : 'The operator of the bus can mend this.';
  if (ageMs === undefined || ageMs > MISSED_SAMPLES * STEPS.fine.ms)
    found.push({
      text:
        ageMs === undefined ? 'No worker has spoken yet.' : `No worker has spoken for ${duration(ageMs)}.`,
      advice: ofSilence(processes?.worker ?? 0, advise),
    });
  if (missing.length > 0)
    found.push({
      text: `${numbered('Partition', missing)} cannot be reached.`,
      advice: `Publishes to topics there are answered 503, deliveries there wait, and the figures lack what is there. ${advise('Look after its Redis.')}`,
    });
  if (memory.max > 0 && memory.used > memory.highMark)
    found.push({
      text: `Memory is full: ${bytes(memory.used)} of ${bytes(memory.max)}.`,
      advice: `Publishes are refused, and the oldest batches are dropped. ${advise('Give Redis more, or empty what is stuck.')}`,
    });
  return found;
}

/** Says what to do if no worker has stored a sample lately. `workers` worker processes are connected to Redis. */
function ofSilence(workers: number, advise: (advice: string) => string): string {
  if (workers === 0)
    return `Nothing is delivered. ${advise('Start a worker, or look into its log. A new one speaks within ten seconds.')}`;
  const connected =
    workers === 1 ? '1 worker process is connected' : `${workers} worker processes are connected`;
  return `Deliveries may wait. ${advise(`${connected} to Redis. A new one speaks within ten seconds. If none does, look into their log: Redis may refuse what they store, as with a full disk.`)}`;
}

function ofSubscribers(figures: OwnFigures, client: string | undefined): Complaint[] {
  const { failing, paused, oldestSeconds, deadLetters } = figures;
  const subscribers = (query: Record<string, string>, name: string) =>
    client === undefined
      ? html`<a href="${pathWith('/console/subscribers', query)}">${name}</a>`
      : html`<a href="/console/subscribers/${encodeURIComponent(client)}">Your subscriber</a>`;
  const counted = (value: number) => (client === undefined ? count(value, 'subscriber') : 'Your subscriber');
  const found: Complaint[] = [];
  if (failing > 0)
    found.push({
      text: `${counted(failing)} failed lately.`,
      advice: html`Repair ${failing === 1 ? 'its callback. Its page has' : 'their callbacks. Their pages have'} the last answers: ${subscribers({ state: 'failing' }, 'Failing subscribers')}.`,
    });
  if (paused > 0)
    found.push({
      text: `${counted(paused)} ${paused === 1 ? 'is' : 'are'} paused.`,
      advice: html`${paused === 1 ? 'Its events are kept until somebody resumes it' : 'Their events are kept until somebody resumes them'}: ${subscribers({ state: 'paused' }, 'Paused subscribers')}.`,
    });
  if (oldestSeconds > LONG_SECONDS)
    found.push({
      text: `${client === undefined ? 'The' : 'Your'} oldest event waits for ${duration(oldestSeconds * 1000)}.`,
      advice: html`Its subscriber fails, is paused or is too slow: ${subscribers({ sort: 'oldest' }, 'Subscribers by age')}.`,
    });
  if (deadLetters > 0)
    found.push({
      text: `${count(deadLetters, 'dead letter')}${client === undefined ? '' : ' of yours'} ${deadLetters === 1 ? 'waits' : 'wait'}.`,
      advice: html`Retry ${deadLetters === 1 ? 'it' : 'them'} when the cause is mended: <a href="/console/dead_letters">Dead letters</a>.`,
    });
  return found;
}

/** Returns a text such as `Partitions 3, 7 and 12`. */
function numbered(what: string, partitions: readonly Partition[]): string {
  const names = partitions.map(({ index }) => String(index));
  const last = names.pop();
  return names.length === 0 ? `${what} ${last}` : `${what}s ${names.join(', ')} and ${last}`;
}
