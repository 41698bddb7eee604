import { RoutemasterError } from './problem.ts';

/**
 * Maximum events that `publishAll` has read, but that are neither stored nor refused yet. A request takes up to 1,000
 * of them. The others wait to fill the next requests.
 */
const MAX_UNDER_WAY = 4000;

export interface PublishFailure {
  /** The position of the event in the `events` that `publishAll` was given, from 0. */
  index: number;
  error: unknown;
}

/**
 * Thrown if some events of `publishAll` have failed. After the first failure, `publishAll` has read no more events,
 * except one for which it was waiting already.
 */
export class PublishAllError extends RoutemasterError {
  /** The number of events that are stored. */
  readonly stored: number;
  /** What `events` has thrown, if it has thrown too. */
  readonly readError?: unknown;
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
   * The events that are not stored, in the order in which `publishAll` has read them. This is a getter, because Node
   * prints all fields of an error that nobody catches: with this list as a field, it printed 2,600 lines. The first
   * error is the `cause`.
   */
  get failures(): readonly PublishFailure[] {
    return this.#failures;
  }
}

/**
 * Publishes each event of `events`, thousands at a time. Resolves with the number of events when all are stored. What
 * `events` throws is thrown when all that was read is stored; if some events have failed, it is in the PublishAllError.
 */
export async function publishAll<Event>(
  events: Iterable<Event> | AsyncIterable<Event>,
  publish: (event: Event) => Promise<void>,
): Promise<number> {
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
    for await (const event of events) {
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
    throw new PublishAllError(stored, failures, thrown?.error);
  }
  if (thrown) throw thrown.error;
  return stored;
}
