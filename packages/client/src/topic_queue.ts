import type { Progress } from './deadline.ts';
import { Group } from './group.ts';
import type { Pending } from './pending.ts';
import { ProblemError } from './problem.ts';
import type { sleepFor } from './retrying.ts';
import type { Transport } from './transport.ts';

/** Maximum events of a request. The bus accepts up to 10,000. */
const EVENTS_PER_REQUEST = 1000;
/**
 * Maximum delayed events of a request; the bus accepts no more. A request never has both delayed and other events: once
 * the client has too many delayed events, the bus refuses each request with a delayed event as a whole.
 */
const MAX_TIMED_EVENTS = 500;
/** Maximum characters of a request with several events. In UTF-8 they take 3 MiB at most; the bus accepts 5 MiB. */
const MAX_CHARACTERS = 1_048_576;
/**
 * A refused request lowers the maximum of events per request of its topic (see TopicQueue). Each request that the bus
 * accepts raises this maximum again by this factor, up to EVENTS_PER_REQUEST.
 */
const GROWTH = 1.25;

/** Codes of errors that one event of a request can cause. The bus then stores no event of the request. */
const OF_ONE_EVENT = new Set(['bad_event', 'bad_body', 'already_delayed', 'body_too_large', 'http_413']);

/**
 * What became of a request: the events that it has stored, or those that have failed, with their error. Events that the
 * bus refused only because of another event are back in the queue.
 */
type Outcome = { stored: readonly Pending[] } | { refused: readonly Pending[]; error: unknown };

/**
 * The waiting events of a topic. Only one request at a time sends events of the topic, so that they are stored in the
 * order of publishing.
 *
 * If the bus refuses a request of 100 events because of one bad event, it stores none of them. If the error says that
 * the bad event has the `index` 7, this event fails, and the next request has only the 7 good events before it. If the
 * error has no `index`, the next requests have 50 events, then 25, until the bad event is alone in a request and fails.
 * The other events go back to the front of the queue each time. After each stored request, the next one may have more
 * events again (GROWTH).
 */
export class TopicQueue {
  readonly name: string;
  #waiting = new Set<Pending>();
  #underWay: Group | undefined;
  #maxEvents = EVENTS_PER_REQUEST;

  constructor(name: string) {
    this.name = name;
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  add(event: Pending): void {
    this.#waiting.add(event);
  }

  get lastFailure(): Error | undefined {
    return this.#underWay?.attempts.lastFailure;
  }

  /**
   * Called when the caller of `publish` no longer waits. Removes the event from the queue, unless a request with it is
   * running. Returns what is known about the event: only a running request may have stored it.
   */
  giveUp(event: Pending): Progress {
    const { lastFailure } = this;
    if (this.#waiting.delete(event) || !this.#underWay) return { mayBeDone: false, lastFailure };
    this.#underWay.giveUp();
    return this.#underWay.attempts;
  }

  async send(transport: Transport, rest: typeof sleepFor): Promise<Outcome> {
    const events = this.#take();
    if (events.length === 0) return { stored: [] };
    const group = new Group(events);
    this.#underWay = group;
    try {
      await group.send(transport, rest);
      this.#maxEvents = Math.min(EVENTS_PER_REQUEST, Math.ceil(this.#maxEvents * GROWTH));
      return { stored: group.events };
    } catch (error) {
      const isOfOne = error instanceof ProblemError && OF_ONE_EVENT.has(error.code);
      return isOfOne ? this.#split(group.events, error) : { refused: group.events, error };
    } finally {
      this.#underWay = undefined;
    }
  }

  /** Removes the events of the next request from the queue. */
  #take(): Pending[] {
    const events: Pending[] = [];
    const [first] = this.#waiting;
    const maxEvents = first?.isTimed ? Math.min(this.#maxEvents, MAX_TIMED_EVENTS) : this.#maxEvents;
    let characters = 0;
    for (const event of this.#waiting) {
      characters += event.text.length;
      if (event.isTimed !== first?.isTimed) break;
      if (events.length > 0 && (characters > MAX_CHARACTERS || events.length >= maxEvents)) break;
      events.push(event);
      this.#waiting.delete(event);
    }
    return events;
  }

  /**
   * Called when the bus has refused a request with `events` because of one of them. If it is known which, this event
   * fails. The others go back to the front of the queue. See TopicQueue.
   */
  #split(events: readonly Pending[], error: ProblemError): Outcome {
    const index = events.length === 1 ? 0 : Number(error.members.index);
    const bad = events[index];
    const others = events.filter((event) => event !== bad && !event.isGivenUp);
    this.#waiting = new Set([...others, ...this.#waiting]);
    if (events.length > 1) this.#maxEvents = bad && index > 0 ? index : Math.ceil(events.length / 2);
    return { refused: bad ? [bad] : [], error: aboutOne(error) };
  }
}

/** Returns the error without the event's position in the request, which the caller of `publish` does not know. */
function aboutOne(error: ProblemError): ProblemError {
  const { index, ...members } = error.members;
  if (index === undefined) return error;
  const { code, status, title, retryAfterMs } = error;
  const detail = error.detail.replace(/^event \d+: /, '');
  const OfItsCode = error.constructor as typeof ProblemError;
  return new OfItsCode({ code, status, title, detail, members, retryAfterMs });
}
