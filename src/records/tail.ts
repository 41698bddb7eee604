import { clock } from '../clock.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Partition } from '../store/partition.ts';

/** Name of the watch (somebody's wish to see new events) that gets the events of all topics. No topic has this name. */
const ALL_TOPICS = '*';
/** Time after which a watch (somebody's wish to see new events) ends if nobody has asked for its events. */
const WATCH_MS = 15_000;
/** Maximum number of watches. A watch is somebody's wish to see new events, and keeps up to KEPT of them. */
const MAX_WATCHES = 20;
const KEPT = 100;
/** Maximum bytes of an event that the tail shows. Of a longer event, only the length is shown. */
const MAX_EVENT_BYTES = 2000;
/**
 * Interval at which a process sends the events that it has noted to Redis. It first asks Redis which watches (wishes to
 * see new events) there are, and stores events only for these.
 */
const INTERVAL_MS = 1000;
/** Maximum events that a process notes for a watch (somebody's wish to see new events) in one interval. */
const MAX_NOTED = 25;

/** An accepted event. `event` is null if it is too long to be shown. */
export interface TailEntry {
  /** When the event was accepted, in ms, by the clock of the web process. */
  at: number;
  topic: string;
  /** The client's token. */
  client: string;
  bytes: number;
  /** Number of events just before this one that the process has left out, because there were too many. */
  skipped: number;
  event: Record<string, unknown> | null;
}

interface Publication {
  topic: string;
  client: string;
  events: readonly string[];
}

/** An event that was noted for the tail. `text` is its JSON, or `null` if it is too long to be shown. */
type Noted = Omit<TailEntry, 'event'> & { text: string };

/**
 * The events noted in one interval for one watch (somebody's wish to see new events). Only the first events of the
 * interval are noted. The others are counted as skipped.
 */
class Notes {
  readonly noted: Noted[] = [];
  #skipped: number;

  constructor(skipped = 0) {
    this.#skipped = skipped;
  }

  /** Number of events that were left out after the last noted one. */
  get skipped(): number {
    return this.#skipped;
  }

  add({ topic, client, events }: Publication): void {
    const room = Math.min(events.length, MAX_NOTED - this.noted.length);
    for (const event of events.slice(0, room)) {
      const bytes = Buffer.byteLength(event);
      const text = bytes > MAX_EVENT_BYTES ? 'null' : event;
      this.noted.push({ at: clock.wallMs(), topic, client, bytes, skipped: this.#skipped, text });
      this.#skipped = 0;
    }
    this.#skipped += events.length - room;
  }
}

/**
 * Shows a sample of the accepted events to people who watch them in the console. Each process notes the first events of
 * each second, and then asks Redis whether anybody watches. While no event is accepted, the process does nothing for
 * the tail.
 */
export class Tail {
  readonly #control: Partition;
  readonly #log: Log;
  /**
   * The events noted in this interval, by watch (somebody's wish to see new events). Events for the watch of all topics
   * are noted even if nobody watches: a watch that begins meanwhile gets its events from them.
   */
  #notes = new Map([[ALL_TOPICS, new Notes()]]);
  #timer: NodeJS.Timeout | undefined;

  constructor(control: Partition, log: Log) {
    this.#control = control;
    this.#log = log;
  }

  /** Notes accepted events. Never throws. */
  note(publication: Publication): void {
    this.#timer ??= setTimeout(() => void this.#exchange(), INTERVAL_MS).unref();
    this.#notes.get(ALL_TOPICS)?.add(publication);
    if (this.#notes.size > 1) this.#notes.get(publication.topic)?.add(publication);
  }

  /**
   * Begins or continues to watch a topic, or all topics, for the next 15 seconds. Returns the newest events that were
   * noted so far, newest first. Throws the errors of Partition.
   */
  async watch(topic: string | undefined): Promise<TailEntry[]> {
    const watch = topic ?? ALL_TOPICS;
    const entries = await this.#control.command(async (redis, keys) => {
      const watched = keys.tail_watched();
      const [found] = await Promise.all([
        redis.lrange(keys.tail(watch), 0, -1),
        redis.zadd(watched, clock.wallMs() + WATCH_MS, watch),
        redis.zremrangebyrank(watched, 0, -MAX_WATCHES - 1),
        redis.pexpire(watched, WATCH_MS),
      ]);
      return found;
    });
    return entries.map((entry) => JSON.parse(entry) as TailEntry);
  }

  /**
   * Stores the noted events in Redis, for each watch that somebody has begun. If storing fails, the noted events are
   * lost. No publisher waits for this method.
   */
  async #exchange(): Promise<void> {
    this.#timer = undefined;
    const before = this.#notes;
    this.#notes = new Map([...before].map(([watch, { skipped }]) => [watch, new Notes(skipped)]));
    try {
      await this.#control.command(async (redis, keys) => {
        const watches = await redis.zrangebyscore(keys.tail_watched(), clock.wallMs(), '+inf');
        const sends = watches.flatMap((watch) => {
          const entries = notedFor(watch, before).map(entryOf);
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
 * Returns the events that were noted for a watch (somebody's wish to see new events). A watch that is new in this
 * interval has no notes of its own. It gets the events of its topic from the notes of all topics.
 */
function notedFor(watch: string, notes: ReadonlyMap<string, Notes>): readonly Noted[] {
  const all = notes.get(ALL_TOPICS)?.noted ?? [];
  return notes.get(watch)?.noted ?? all.filter(({ topic }) => topic === watch);
}

function entryOf({ text, ...about }: Noted): string {
  return `${JSON.stringify(about).slice(0, -1)},"event":${text}}`;
}
