import { RoutemasterError } from './problem.ts';

/**
 * Maximum events that `publishAll` holds in memory: those that are read, but neither stored nor refused yet. A request
 * takes 1,000 events. While it is under way, up to 3,000 further events are read for the next requests.
 */
const MAX_UNDER_WAY = 4000;

export interface PublishFailure {
  /** The position of the event in the iterable that `publishAll` was given, from 0. */
  index: number;
  error: unknown;
}

/** Thrown by `publishAll` if publishing an event has failed. */
export class PublishAllError extends RoutemasterError {
  readonly stored: number;
  /** The error of the iterable `events`, if reading it failed too. */
  declare readonly readError?: unknown;
  readonly #failures: readonly PublishFailure[];

  constructor(stored: number, failures: readonly PublishFailure[], readError?: unknown) {
    const [first] = failures;
    const what = `${failures.length} of ${stored + failures.length} events failed, first event ${first?.index}`;
    const why = first?.error instanceof Error ? first.error.message : String(first?.error);
    super('not_all_published', `${what}: ${why}`, { cause: first?.error });
    this.stored = stored;
    if (readError !== undefined) this.readError = readError;
    this.#failures = failures;
  }

  /**
   * The events that are not stored, in the order in which `publishAll` read them. The error of the first of these
   * events is the `cause` of this PublishAllError. `failures` is a getter and not a field, because Node prints all
   * fields of an uncaught error. A long list of failures would fill the terminal (2,600 lines in one case).
   */
  get failures(): readonly PublishFailure[] {
    return this.#failures;
  }
}

/**
 * Publishes each event of `events`, thousands at a time. If all are stored, resolves with their number. Otherwise waits
 * until each event that was read is stored or refused. Then throws:
 * - a PublishAllError if an event failed. At most one more event is read after the failure.
 * - the error of the iterable `events`, or the reason of an aborted `signal`, if no event failed. TypeError if `events`
 *   is no iterable.
 */
export async function publishAll<Event>(
  events: Iterable<Event> | AsyncIterable<Event>,
  publish: (event: Event) => Promise<void>,
  signal: AbortSignal | undefined,
): Promise<number> {
  refuseNoIterable(events);
  const failures: PublishFailure[] = [];
  let [given, underWay] = [0, 0];
  let wake = () => {};
  const track = async (event: Event, index: number) => {
    underWay++;
    await publish(event).catch((error: unknown) => failures.push({ index, error }));
    underWay--;
    wake();
  };
  const fewerThan = async (max: number) => {
    while (underWay >= max) await new Promise<void>((resolve) => (wake = resolve));
  };
  let thrown: { error: unknown } | undefined;
  try {
    for await (const event of signal && Symbol.asyncIterator in events ? endedBy(signal, events) : events) {
      void track(event, given++);
      await fewerThan(MAX_UNDER_WAY);
      if (failures.length > 0) break;
    }
  } catch (error) {
    thrown = { error };
  }
  await fewerThan(1);
  const stored = given - failures.length;
  if (failures.length > 0) {
    failures.sort((a, b) => a.index - b.index);
    const readError = thrown?.error === signal?.reason ? undefined : thrown?.error;
    throw new PublishAllError(stored, failures, readError);
  }
  if (thrown) throw thrown.error;
  return stored;
}

/**
 * Throws TypeError for a value without events to read, such as a single event, a text, or a generator function that was
 * not called. In JavaScript, no compiler finds this.
 */
function refuseNoIterable(events: unknown): void {
  const isObject = typeof events === 'object' && events !== null;
  if (isObject && (Symbol.iterator in events || Symbol.asyncIterator in events)) return;
  throw new TypeError('the events must be an array, an iterable or an async iterable');
}

/** Reads `events`. When `signal` is aborted, throws its reason at once, without waiting for the next event. */
async function* endedBy<Event>(signal: AbortSignal, events: AsyncIterable<Event>): AsyncGenerator<Event> {
  let end = () => {};
  const abort = () => end();
  signal.addEventListener('abort', abort);
  const source = events[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await new Promise<IteratorResult<Event>>((resolve, reject) => {
        end = () => reject(signal.reason);
        if (signal.aborted) end();
        else source.next().then(resolve, reject);
      });
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener('abort', abort);
    const closed = source.return?.();
    // `return` of a generator waits for a `next` that is running, which may take forever. So after an abort, `return`
    // is not awaited.
    if (signal.aborted) closed?.catch(() => {});
    else await closed;
  }
}
