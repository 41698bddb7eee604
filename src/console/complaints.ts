import { type Content, html } from '../html.ts';
import { type Figures, STEPS } from '../metrics/history.ts';
import type { Memory } from '../store/memory.ts';
import type { Partition } from '../store/partition.ts';
import type { ProcessCounts } from '../store/presence.ts';
import { bytes, count, duration, number, past } from './format.ts';
import { subscriberPath } from './links.ts';
import { pathWith } from './parts.ts';

/**
 * Workers store their figures (a sample) every ten seconds. The overview complains if MISSED_SAMPLES samples are
 * missing.
 */
const MISSED_SAMPLES = 3;
/** Seconds that an event may wait for its subscriber before the overview complains. */
const LONG_SECONDS = 60;
/** Time after a drop for which the overview mentions the events that the bus dropped because memory was full. */
export const DROPS_TOLD_MS = 86_400_000;

/** The state of the bus, from which `complaintsOf` derives what is wrong. */
export interface State {
  /** The newest figures of the whole bus or, if the visitor is a client, of this client alone. */
  figures: SeenFigures | undefined;
  /** The time since a worker last stored figures (a sample). Undefined if no sample is stored. */
  ageMs: number | undefined;
  /** The memory of the fullest Redis. */
  memory: Memory;
  /**
   * The events that the bus dropped because memory was full. Undefined if it dropped none within DROPS_TOLD_MS.
   * - For a client: `events` is the number of its dropped events since it subscribed, and `agoMs` is the time since the
   *   last drop. `ofJoins` is how many of them its joins lost.
   * - For the whole bus: `events` is the number dropped within DROPS_TOLD_MS, and `agoMs` may be five minutes too long.
   */
  dropped?: { events: number; agoMs: number; ofJoins?: number } | undefined;
  /**
   * Undefined if Redis refuses neither writes nor commands. `word` is the first word of the error, such as NOREPLICAS.
   * `partitions` are those whose Redis refuses; undefined if this is true of all.
   */
  refusal?: { word: string; partitions: readonly Partition[] | undefined } | undefined;
  /** The partitions that are away. */
  away: readonly Partition[];
  /**
   * `fewest` is the smallest number of replicas that any Redis has. A Redis with fewer than `min` refuses publishes.
   */
  replicas?: { fewest: number; min: number };
  /** The processes that are connected to Redis, if they can be counted. */
  processes?: ProcessCounts | undefined;
  /** The token of the client that looks at the page. Undefined for root and viewers. */
  client?: string | undefined;
}

type SeenFigures = Pick<
  Figures<'bus'>,
  'queued' | 'oldestSeconds' | 'subscribers' | 'failing' | 'paused' | 'deadLetters'
>;

/** A link to the list of dropped batches, which shows their subscribers. */
const DROPPED = html`<a href="/console/deliveries?state=dropped">Dropped batches</a>`;

/** A link to the list of subscribers, sorted by the memory that they take. */
const BY_MEMORY = html`<a href="${pathWith('/console/subscribers', { sort: 'bytes' })}">Subscribers by memory</a>`;

export interface Complaint {
  text: string;
  advice: Content;
}

/** What to do if Redis refuses writes or commands, by the word with which its error begins. */
const ADVICE_ON_REFUSAL: Readonly<Record<string, string>> = {
  NOREPLICAS: 'Too few replicas follow it: start them, or lower its min-replicas-to-write.',
  MISCONF: 'It cannot save to its disk: make room there. Its log says more.',
  READONLY: 'It is a replica: call its master, or promote it.',
  NOPERM: 'Its ACL forbids a command that the bus needs. ACL LOG names it; docs/operating.md has the ACL.',
};

/** Returns what is wrong with the bus, the worst first. A client does not see figures of other clients. */
export function complaintsOf(state: State): Complaint[] {
  const { figures, client } = state;
  return [...ofBus(state), ...(figures ? ofSubscribers(figures, client) : [])];
}

function ofBus(state: State): Complaint[] {
  const { ageMs, memory, away, replicas, processes, dropped, client, refusal } = state;
  const found: Complaint[] = [];
  const advise = (advice: string) =>
    client === undefined ? advice : 'The operator of the bus can mend this.';
  if (refusal) {
    const { word, partitions } = refusal;
    const [of, to, there] = partitions
      ? [` for ${listed(partitions)}`, ' to topics there', ' there']
      : ['', '', ''];
    // With NOPERM, publishes may go on: the ACL may lack a command that only some calls need.
    const [what, follows] =
      word === 'NOPERM'
        ? ['commands', `Calls that need them are answered 503, and deliveries${there} may wait.`]
        : ['writes', `Publishes${to} are refused, and deliveries${there} wait.`];
    found.push({
      text: `Redis refuses ${what}${of} (${word}).`,
      advice: `${follows} ${advise(ADVICE_ON_REFUSAL[word] ?? 'The log of the bus quotes what Redis says.')}`,
    });
  }
  if (ageMs === undefined || ageMs > MISSED_SAMPLES * STEPS.fine.ms)
    found.push({
      text:
        ageMs === undefined ? 'No worker has spoken yet.' : `No worker has spoken for ${duration(ageMs)}.`,
      advice: ofSilence(processes?.worker ?? 0, advise),
    });
  if (away.length > 0)
    found.push({
      text: `P${listed(away).slice(1)} ${away.length === 1 ? 'is' : 'are'} away.`,
      advice: `Publishes to topics there are answered 503, deliveries there wait, and the figures lack what is there. ${advise('Start the Redis that has them, or wait for its replica.')}`,
    });
  if (memory.wrongPolicy !== undefined)
    found.push({
      text: `Redis may delete events: its maxmemory-policy is ${memory.wrongPolicy}.`,
      advice: `Nobody would be told of them. ${advise('Set it to noeviction, also in the configuration of Redis.')}`,
    });
  if (replicas && replicas.fewest < replicas.min)
    found.push({
      text: `Too few replicas follow Redis: ${replicas.fewest} of ${replicas.min}.`,
      advice: `Publishes are refused until more do. ${advise('The log says its address. Start its replicas.')}`,
    });
  if (memory.max > 0 && memory.used > memory.lowMark) {
    const isFull = memory.used > memory.highMark;
    found.push({
      text: `Memory is ${isFull ? 'full' : 'nearly full'}: ${bytes(memory.used)} of ${bytes(memory.max)}.`,
      advice: html`${isFull ? 'Publishes' : `Above ${bytes(memory.highMark)} publishes`} are refused, and the oldest batches are dropped${isFull && client === undefined && html` (${DROPPED} says whose)`}. ${advise('Give Redis more, or empty what is stuck.')}${client === undefined && html` ${BY_MEMORY} shows who fills it.`}`,
    });
  }
  if (dropped) found.push(ofDrops(dropped, client));
  return found;
}

/** Names partitions, such as `partitions 2 and 5`. */
function listed(partitions: readonly Partition[]): string {
  // A ListFormat is made only when it is needed: making the first one takes 10 ms of CPU, which each web process would
  // spend at its start.
  const numbers = new Intl.ListFormat('en-GB').format(partitions.map(({ index }) => String(index)));
  return `partition${partitions.length === 1 ? '' : 's'} ${numbers}`;
}

/** Links to the list of joins, which says how many events each has lost. */
const JOINS = '/console/joins';

function ofDrops(
  { events, agoMs, ofJoins = 0 }: NonNullable<State['dropped']>,
  client: string | undefined,
): Complaint {
  const were = events === 1 ? 'was' : 'were';
  if (client !== undefined)
    return {
      text: `${count(events, 'event')} of yours ${were} dropped, the last ${past(agoMs)}.`,
      advice: [
        'Memory ran short.',
        events > ofJoins &&
          html` Ask the publishers what has changed since: <a href="${subscriberPath(client)}">Your subscriber</a> has the topics.`,
        ofJoins > 0 &&
          html` Joins have not counted ${events > ofJoins && `${number(ofJoins)} of `}them, so keys may expire or stay open: <a href="${JOINS}">Your joins</a>.`,
      ],
    };
  return {
    text: `${count(events, 'event')} ${were} dropped within a day, the last at most ${past(agoMs)}.`,
    advice: html`Memory ran short. Give Redis more, or empty what is stuck. ${DROPPED} says whose they were. Each subscriber is told, and its page says of what; nobody is told of those of <a href="${JOINS}">joins</a>.`,
  };
}

/**
 * Says what to do if no figures arrive from workers. `workers` is the number of worker processes that are connected to
 * Redis.
 */
function ofSilence(workers: number, advise: (advice: string) => string): string {
  if (workers === 0)
    return `Nothing is delivered. ${advise('Start a worker, or look into its log. A new one speaks within ten seconds.')}`;
  const connected =
    workers === 1 ? '1 worker process is connected' : `${workers} worker processes are connected`;
  return `Deliveries may wait. ${advise(`${connected} to Redis. A new one speaks within ten seconds. If none does, look into their log: Redis may refuse what they store, as with a full disk.`)}`;
}

function ofSubscribers(figures: SeenFigures, client: string | undefined): Complaint[] {
  const { failing, paused, oldestSeconds, deadLetters } = figures;
  const subscribers = (query: Record<string, string>, name: string) =>
    client === undefined
      ? html`<a href="${pathWith('/console/subscribers', query)}">${name}</a>`
      : html`<a href="${subscriberPath(client)}">Your subscriber</a>`;
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
