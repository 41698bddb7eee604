import { z } from 'zod';
import { clock } from '../clock.ts';
import { parseOwnJson } from '../json.ts';
import { type Log, reasonOf } from '../log.ts';
import { NAMED } from '../routing/schemas.ts';
import type { Partition } from '../store/partition.ts';
import { msOf } from '../store/replies.ts';

/** Stands for all topics, in place of the name of a watched topic. No topic has this name. */
const ALL_TOPICS = '*';
/** Time for which a topic is watched after somebody has last asked for its events. */
const WATCH_MS = 15_000;
/** Maximum topics that are watched at a time. Redis keeps the newest KEPT events of each. */
const MAX_WATCHES = 20;
const KEPT = 100;
/** Maximum bytes of an event that is shown in full. Of a longer event, only the length is shown. */
const MAX_EVENT_BYTES = 2000;
/** Interval at which a process asks Redis which topics are watched, and sends Redis the events of these topics. */
const INTERVAL_MS = 1000;
/**
 * Maximum events of a watched topic that a process notes in one interval. Further events in the interval are only
 * counted.
 */
const MAX_NOTED = 25;

/**
 * An accepted event as `/tail` shows it. In Redis and in this process, `client` is the publisher's token. The public
 * name replaces the token when the event is shown.
 */
export const TAIL_ENTRY = z
  .object({
    at: z.int().describe('When it was accepted (ms since 1970), by Redis’s clock.'),
    topic: z.string(),
    client: z.string().describe('The public name of its publisher.'),
    bytes: z.int().describe('Its length.'),
    skipped: z.int().describe('How many events before it were left out, because there were too many.'),
    event: z.looseObject({}).nullable().describe('Null if it is longer than 2,000 bytes.'),
  })
  .register(NAMED, { name: 'TailEntry' });
export type TailEntry = z.infer<typeof TAIL_ENTRY>;

interface Publication {
  topic: string;
  client: string;
  events: readonly string[];
}

/**
 * What this process notes of an accepted event, for people who watch events. `text` is the event's JSON, or `null` if
 * it is too long to be shown. `atMs` is when the event was accepted, by the monotonic clock of the process.
 */
type Noted = Omit<TailEntry, 'event' | 'at'> & { text: string; atMs: number };

/** The events that a process notes in one interval, of one watched topic or of all topics: MAX_NOTED at most. */
class Notes {
  readonly noted: Noted[] = [];
  /** Number of events that were not noted since the last noted event, because `noted` was full. */
  skipped: number;

  constructor(skipped = 0) {
    this.skipped = skipped;
  }

  add({ topic, client, events }: Publication): void {
    const room = Math.min(events.length, MAX_NOTED - this.noted.length);
    for (const event of events.slice(0, room)) {
      const bytes = Buffer.byteLength(event);
      const text = bytes > MAX_EVENT_BYTES ? 'null' : event;
      this.noted.push({ atMs: clock.monotonicMs(), topic, client, bytes, skipped: this.skipped, text });
      this.skipped = 0;
    }
    this.skipped += events.length - room;
  }
}

/**
 * Shows a sample of the accepted events to people who watch them. Each process keeps the first events of each second in
 * memory. At the end of the second, it sends those of watched topics to Redis.
 */
export class Tail {
  readonly #control: Partition;
  readonly #log: Log;
  /**
   * For each watched topic, copies of the first events of the present second. At the end of the second, this process
   * sends the copies to Redis, for the people who watch. (Publishing stores the events themselves.) ALL_TOPICS has
   * events of every topic, even while nobody watches, so that somebody who begins to watch a topic also sees those of
   * the last second.
   */
  #notes = new Map([[ALL_TOPICS, new Notes()]]);
  #timer: NodeJS.Timeout | undefined;

  constructor(control: Partition, log: Log) {
    this.#control = control;
    this.#log = log;
  }

  /** Notes accepted events. Within a second, `#exchange` sends the events of watched topics to Redis. Never throws. */
  note(publication: Publication): void {
    this.#timer ??= setTimeout(() => void this.#exchange(), INTERVAL_MS).unref();
    this.#notes.get(ALL_TOPICS)?.add(publication);
    if (this.#notes.size > 1) this.#notes.get(publication.topic)?.add(publication);
  }

  /**
   * Makes all processes send a sample of the events of a topic, or of all topics, to Redis for the next 15 seconds.
   * Resolves at once with the events that Redis has already, newest first. Throws StorageUnavailable or StorageFull.
   */
  async watch(topic: string | undefined): Promise<TailEntry[]> {
    const watch = topic ?? ALL_TOPICS;
    const entries = await this.#control.command(async (redis, keys) => {
      const watched = keys.tail_watched();
      const untilMs = msOf(await redis.time()) + WATCH_MS;
      const [found] = await Promise.all([
        redis.lrange(keys.tail(watch), 0, -1),
        redis.zadd(watched, untilMs, watch),
        redis.zremrangebyrank(watched, 0, -MAX_WATCHES - 1),
        redis.pexpire(watched, WATCH_MS),
      ]);
      return found;
    });
    return entries.map((entry) => parseOwnJson(entry) as TailEntry);
  }

  /**
   * Sends Redis the events of watched topics that were noted in the last second. If Redis fails, these events are never
   * shown.
   */
  async #exchange(): Promise<void> {
    this.#timer = undefined;
    const before = this.#notes;
    this.#notes = new Map([...before].map(([watch, { skipped }]) => [watch, new Notes(skipped)]));
    try {
      await this.#control.command(async (redis, keys) => {
        const nowMs = msOf(await redis.time());
        const aheadMs = nowMs - clock.monotonicMs();
        const watches = await redis.zrangebyscore(keys.tail_watched(), nowMs, '+inf');
        const sends = watches.flatMap((watch) => {
          const entries = notedFor(watch, before).map((noted) => entryOf(noted, aheadMs));
          if (entries.length === 0) return [];
          const list = keys.tail(watch);
          return [
            redis.lpush(list, ...entries),
            redis.ltrim(list, 0, KEPT - 1),
            redis.pexpire(list, WATCH_MS),
          ];
        });
        await Promise.all(sends);
        const wanted = [ALL_TOPICS, ...watches];
        this.#notes = new Map(wanted.map((watch) => [watch, this.#notes.get(watch) ?? new Notes()]));
      });
    } catch (error) {
      this.#log.debug({ reason: reasonOf(error) }, 'could not send events to those who watch');
    }
  }
}

/**
 * Returns the noted events of one interval for people who watch a topic, or all topics (`watch` is ALL_TOPICS). If
 * nobody watched the topic when the interval began, takes the topic's events from those noted for ALL_TOPICS. These do
 * not tell how many events of this topic were left out, so `skipped` is set to 0.
 */
function notedFor(watch: string, notes: ReadonlyMap<string, Notes>): readonly Noted[] {
  const own = notes.get(watch)?.noted;
  if (own) return own;
  const all = notes.get(ALL_TOPICS)?.noted ?? [];
  return all.filter(({ topic }) => topic === watch).map((noted) => ({ ...noted, skipped: 0 }));
}

/**
 * Returns the JSON of an event as Redis stores it. `aheadMs` is Redis's clock minus the monotonic clock of the process.
 */
function entryOf({ text, atMs, ...about }: Noted, aheadMs: number): string {
  const at = Math.round(atMs + aheadMs);
  return `${JSON.stringify({ at, ...about }).slice(0, -1)},"event":${text}}`;
}
