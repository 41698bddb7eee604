import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type Calls, ForbiddenError } from '@routemaster/client';
import { type Call, Failure, UsageError } from './command.ts';
import { jsonText } from './long_numbers.ts';
import { hintOnTopics } from './subscriptions.ts';
import { number, textOf, timeOf } from './tables.ts';

type Entry = Calls['GET /tail']['answer'][number];

/**
 * Interval at which the bus is asked for new events. Asking more often would help little: a web process adds the events
 * that it has accepted to the answer of GET /tail only once a second.
 */
const LOOK_EVERY_MS = 1000;
/**
 * Maximum number of topics. The bus watches no more topics than this at a time. If rtm asked for more, each request for
 * one topic would end the watch of another topic, and events would be missing.
 */
const MAX_TOPICS = 20;

/** A watched topic, or all topics if `topic` is undefined. `seen` is the last answer of the bus, newest event first. */
interface Watch {
  topic: string | undefined;
  seen: readonly Entry[];
}

/**
 * Prints events that the bus accepts, until Ctrl-C. The bus shows only some of them, such as the first 25 of each
 * second and web process. Notes on stderr say which events are left out.
 */
export async function tail(call: Call): Promise<void> {
  const topics = [...new Set(call.args)];
  if (topics.length > MAX_TOPICS)
    throw new UsageError(`At most ${MAX_TOPICS} topics; without a TOPIC come the events of all`);
  const watches: Watch[] = (topics.length === 0 ? [undefined] : topics).map((topic) => ({ topic, seen: [] }));
  const interrupted = call.interruption();
  const bus = call.connect();
  const look = async (watch: Watch) => {
    const entries = await bus.tail({ topic: watch.topic }, { signal: interrupted });
    const fresh = newOf(entries, watch.seen);
    if (watch.seen.length > 0 && fresh.length > 0 && fresh.length === entries.length)
      call.note('events may be missing here: more came than the bus keeps');
    watch.seen = entries;
    return fresh;
  };
  const lookAtAll = async () => {
    const fresh: Entry[] = [];
    for (const watch of watches) fresh.push(...(await look(watch)).reverse());
    for (const entry of fresh.sort((one, other) => one.at - other.at)) print(call, entry);
  };
  try {
    await lookAtAll();
    const what = topics.join(', ') || 'all topics';
    const which =
      'of each second and web process, the first 25 events, but none of triggers, joins and delays';
    call.note(`watching ${what}: ${which}; Ctrl-C ends`);
    const hint = topics.length === 0 ? undefined : await hintOnTopics(call, topics);
    if (hint !== undefined) call.note(hint);
    while (await sleep(LOOK_EVERY_MS, true, { signal: interrupted }).catch(() => false)) await lookAtAll();
  } catch (error) {
    if (interrupted.aborted) return;
    if (!(error instanceof ForbiddenError)) throw error;
    throw new Failure(error.code, `${error.message}; rtm listen shows a client the events of its topics`);
  }
}

/**
 * Returns the entries of the bus's new answer that were not in `seen`, the answer before. Both answers begin with the
 * newest entry. The oldest entries of `seen` can be missing in the new answer, because the bus has forgotten them.
 */
function newOf(entries: readonly Entry[], seen: readonly Entry[]): Entry[] {
  const isSeen = (index: number) =>
    isDeepStrictEqual(entries.slice(index), seen.slice(0, entries.length - index));
  const count = entries.findIndex((_, index) => isSeen(index));
  return entries.slice(0, count === -1 ? undefined : count);
}

function print(call: Call, entry: Entry): void {
  const { at, topic, client, bytes, skipped, event } = entry;
  if (skipped > 0) call.note(`${number(skipped)} events left out`);
  const { type, url, data } = event ?? {};
  const shown = event === null ? [`(too long to be shown: ${number(bytes)} bytes)`] : [type, url];
  if (data !== undefined) shown.push(jsonText(data));
  call.print(entry, [[timeOf(at), topic, client, ...shown].map(textOf).join(' ')]);
}
