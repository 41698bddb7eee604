import { bad, type Finding, type Role, warning } from './doctor_finding.ts';
import type { Figures } from './figures.ts';
import type { Join } from './joins.ts';
import type { Subscription } from './subscriptions.ts';
import { number, timeOf } from './tables.ts';

type Drops = NonNullable<Subscription['dropped']>;

/**
 * The doctor reports a subscriber's drops for this long after the last drop. After this time, it reports them only if
 * the bus has not yet told the subscriber about all of them.
 */
const REPORTED_MS = 86_400_000;

/** Maximum subscribers or joins that a finding lists, and maximum topics that it lists. */
const MAX_LISTED = 5;

const MORE_MEMORY =
  'Memory ran short: raise the limit of Redis (maxmemory, and ROUTEMASTER_REDIS_MAX_MEM if set)';

/**
 * Yields a finding if the bus has lately dropped events of a subscriber because memory ran short. If deliveries have
 * already told the subscribers of all their drops, the finding is only a warning. (If memory is still short, another
 * finding says so.)
 */
export function* dropFindings(
  shown: readonly Subscription[],
  role: Role,
  figures: Figures,
): Generator<Finding> {
  const lossy = shown
    .flatMap(({ subscriber, dropped }) => (dropped && isReported(dropped) ? [{ subscriber, dropped }] : []))
    .sort((one, other) => other.dropped.events - one.dropped.events);
  const [first] = lossy;
  if (!first) return;
  const detail = lossy.map(({ subscriber, dropped }) => {
    const of = role === 'client' ? '' : ` of ${subscriber}`;
    return `${number(dropped.events)}${of}${whenOf(dropped)}`;
  });
  const hasLimit = figures.has('redis_memory_high_mark_bytes');
  const advice = role === 'client' ? adviceToClient(first.dropped, hasLimit) : adviceToWatcher(hasLimit);
  const found = lossy.some(({ dropped }) => dropped.untold > 0) ? bad : warning;
  yield found('dropped', `events were dropped: ${listed(detail, '; ')}`, advice);
}

/** Without a limit of Redis, memory cannot run short: it was short earlier, or the demo dropped events on purpose. */
const NO_LIMIT =
  'Redis has no limit now: memory ran short when it had one, or this is the demo, which drops a batch on purpose.';

function adviceToWatcher(hasLimit: boolean): string {
  return hasLimit ? `${MORE_MEMORY}, or mend the subscribers that do not take their events.` : NO_LIMIT;
}

function adviceToClient(dropped: Drops, hasLimit: boolean): string {
  const why = hasLimit ? 'Memory of the bus ran short.' : NO_LIMIT;
  return `${why} Ask the publishers of ${topicsOf(dropped)} what has changed since ${timeOf(dropped.from)}.`;
}

/**
 * Yields a finding if the bus has lately dropped events of joins because memory ran short. A join gets no drop notice,
 * so the client of the join learns of the drops only here.
 */
export function* joinDropFindings(joins: readonly Join[], role: Role): Generator<Finding> {
  const lossy = joins
    .filter(({ dropped_at }) => (dropped_at ?? 0) > Date.now() - REPORTED_MS)
    .sort((one, other) => other.dropped - one.dropped);
  if (lossy.length === 0) return;
  const detail = lossy.map(({ name, client, dropped, dropped_at }) => {
    const of = role === 'client' ? name : `${name} of ${client}`;
    return `${number(dropped)} of ${of}, the last at ${timeOf(dropped_at ?? 0)}`;
  });
  const sources = new Set(lossy.flatMap((join) => join.sources.map(({ topic }) => topic)));
  const advice =
    role === 'client'
      ? 'Memory of the bus ran short. Keys that lack such an event are not completed, or expire: see what of ' +
        `${listed([...sources], ', ')} was done since.`
      : `${MORE_MEMORY}. Keys of these joins may stay open, or expire: tell their clients.`;
  yield bad('joins', `joins lost events: ${listed(detail, '; ')}`, advice);
}

/**
 * If an old release of the bus dropped the events, the time of the last drop is unknown: `last_at` is null or, while
 * the bus still runs that release, missing. Such drops are reported only until the bus has told the subscriber about
 * them.
 */
function isReported({ last_at, untold }: Drops): boolean {
  return untold > 0 || (last_at ?? 0) > Date.now() - REPORTED_MS;
}

function whenOf({ last_at, from, to }: Drops): string {
  // A bus of an older release says only when the batches of the dropped events were opened.
  return typeof last_at === 'number'
    ? `, the last at ${timeOf(last_at)}`
    : ` in batches opened from ${timeOf(from)} to ${timeOf(to)}`;
}

/** The topic of test events, which the bus itself publishes. */
const TEST_TOPIC = 'routemaster_test';

/**
 * Returns the names of the topics that lost the most events. Leaves out TEST_TOPIC, and the empty name under which the
 * bus counts events whose topic it could not read.
 */
function topicsOf({ topics }: Drops): string {
  const sorted = Object.entries(topics).sort(([, one], [, other]) => other - one);
  const names = sorted.map(([topic]) => topic).filter((topic) => topic !== '' && topic !== TEST_TOPIC);
  return names.length === 0 ? 'your topics' : listed(names, ', ');
}

function listed(all: readonly string[], separator: string): string {
  const more = all.length - MAX_LISTED;
  return [...all.slice(0, MAX_LISTED), ...(more > 0 ? [`${more} more`] : [])].join(separator);
}
