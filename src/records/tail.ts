import { clock } from '../clock.ts';
import { parseOwnJson } from '../json.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Partition } from '../store/partition.ts';
import { msOf } from '../store/replies.ts';

/** Stands in place of a topic's name if somebody watches the new events of all topics. No topic has this name. */
const ALL_TOPICS = '*';
/** Time for which the new events of a topic are watched, after somebody has last asked for them. */
const WATCH_MS = 15_000;
/** Maximum topics that are watched at a time. Redis keeps the newest KEPT events of each. */
const MAX_WATCHES = 20;
const KEPT = 100;
/**
 * Maximum bytes of an event that is shown to people who watch new events. They see only the length of a longer event.
 */
const MAX_EVENT_BYTES = 2000;
/**
 * Interval at which a process sends accepted events to Redis for people who watch them. The process first asks Redis
 * which topics are watched, and then sends only events of these topics.
 */
const INTERVAL_MS = 1000;
/**
 * Maximum events that a process holds in memory for each watched topic in one interval (INTERVAL_MS). Further events
 * are only counted.
 */
const MAX_NOTED = 25;

/** An accepted event. `event` is null if it is too long to be shown. */
interface TailEntry {
  /** When the event was accepted, in ms, by Redis's clock. */
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

/**
 * An accepted event that a process holds in memory for people who watch new events. `text` is its JSON, or the text
 * `null` if it is too long to be shown. `atMs` is when the event was accepted, by the monotonic clock of the process.
 */
type Noted = Omit<TailEntry, 'event' | 'at'> & { text: string; atMs: number };

/** The events of one watched topic that a process holds in memory for one interval, MAX_NOTED at most. */
class Notes {
  readonly noted: Noted[] = [];
  /** Number of events after the last event in `noted`. They were not held, because of MAX_NOTED. */
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
 * Shows a sample of the accepted events to people who watch them in the console. Each process holds the first events of
 * each second in memory. Then it stores those of watched topics in Redis.
 */
export class Tail {
  readonly #control: Partition;
  readonly #log: Log;
  /**
   * The events that this process has accepted but not sent to Redis yet, by watched topic. The entry ALL_TOPICS has
   * events of any topic, even if nobody watches. From this entry come the first events of a topic that somebody has
   * just begun to watch.
   */
  #notes = new Map([[ALL_TOPICS, new Notes()]]);
  #timer: NodeJS.Timeout | undefined;

  constructor(control: Partition, log: Log) {
    this.#control = control;
    this.#log = log;
  }

  /**
   * Holds accepted events in memory. `#exchange` sends those of watched topics to Redis within a second. Never throws.
   */
  note(publication: Publication): void {
    this.#timer ??= setTimeout(() => void this.#exchange(), INTERVAL_MS).unref();
    this.#notes.get(ALL_TOPICS)?.add(publication);
    if (this.#notes.size > 1) this.#notes.get(publication.topic)?.add(publication);
  }

  /**
   * Begins or continues to watch a topic, or all topics, for the next 15 seconds. Returns the events that Redis has so
   * far for those who watch, newest first. Throws StorageUnavailable or StorageFull.
   */
  async watch(topic: string | undefined): Promise<TailEntry[]> {
    const watch = topic ?? ALL_TOPICS;
    const entries = await this.#control.command(async (redis, keys) => {
      const watched = keys.tail_watched();
      const [seconds] = await redis.time();
      const [found] = await Promise.all([
        redis.lrange(keys.tail(watch), 0, -1),
        redis.zadd(watched, Number(seconds) * 1000 + WATCH_MS, watch),
        redis.zremrangebyrank(watched, 0, -MAX_WATCHES - 1),
        redis.pexpire(watched, WATCH_MS),
      ]);
      return found;
    });
    return entries.map((entry) => parseOwnJson(entry) as TailEntry);
  }

  /**
   * Sends the events of the last second to Redis, for each topic that somebody watches. If that fails, people who watch
   * do not see these events. No publisher waits for this method.
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
 * Returns the events of the last second for people who watch a topic, or all topics (`*`). `notes` has no entry for a
 * topic that nobody watched when that second began. Its events are then picked from those of all topics.
 */
function notedFor(watch: string, notes: ReadonlyMap<string, Notes>): readonly Noted[] {
  const all = notes.get(ALL_TOPICS)?.noted ?? [];
  return notes.get(watch)?.noted ?? all.filter(({ topic }) => topic === watch);
}

/** `aheadMs` is how far Redis's clock is ahead of the monotonic clock of the process. */
function entryOf({ text, atMs, ...about }: Noted, aheadMs: number): string {
  const at = Math.round(atMs + aheadMs);
  return `${JSON.stringify({ at, ...about }).slice(0, -1)},"event":${text}}`;
}
