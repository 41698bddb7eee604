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
 * Thrown if some events of `publishAll` have failed. After the first failure, `publishAll` reads no more events, except
 * one that it is already waiting for.
 */
export class PublishAllError extends RoutemasterError {
  /** The number of events that are stored. */
  readonly stored: number;
  /** The error that `events` threw, if it threw one too. */
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
   * The events that are not stored, in the order in which `publishAll` has read them. This is a getter, because Node
   * prints all fields of an error that nobody catches: as a field, this list took 2,600 lines. The error of the first
   * event is the `cause`.
   */
  get failures(): readonly PublishFailure[] {
    return this.#failures;
  }
}

/**
 * Publishes each event of `events`, thousands at a time. Resolves with the number of events when all are stored. If
 * `events` throws, waits until the events that were read are stored or refused. Then throws the same error or, if some
 * events have failed, a PublishAllError that contains it.
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
