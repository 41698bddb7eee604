/** Maximum unfinished answers in a thread: of one subscriber, and of all. */
const MAX_OF_SUBSCRIBER = 16;
const MAX = 256;

/** An answer that has not arrived to its end. Its status has already decided the delivery. */
export interface UnfinishedAnswer {
  /** The subscriber's token. */
  readonly subscriber: string;
  /** Closes the answer's connection. The outcome of the delivery stays. */
  cut(): void;
}

/**
 * Bounds the connections with unfinished answers by cutting the oldest. The workers of such deliveries are
 * already free for others, so without a bound a subscriber could hold any number of connections.
 */
export class UnfinishedAnswers {
  /** In the order of arrival. */
  readonly #answers = new Set<UnfinishedAnswer>();
  readonly #counts = new Map<string, number>();

  begin(answer: UnfinishedAnswer): void {
    const { subscriber } = answer;
    this.#answers.add(answer);
    const count = (this.#counts.get(subscriber) ?? 0) + 1;
    this.#counts.set(subscriber, count);
    if (count > MAX_OF_SUBSCRIBER) this.#cut((each) => each.subscriber === subscriber);
    else if (this.#answers.size > MAX) this.#cut(() => true);
  }

  /** Not an error if the answer has ended before, or never began. */
  end(answer: UnfinishedAnswer): void {
    if (!this.#answers.delete(answer)) return;
    const { subscriber } = answer;
    const count = (this.#counts.get(subscriber) ?? 0) - 1;
    if (count > 0) this.#counts.set(subscriber, count);
    else this.#counts.delete(subscriber);
  }

  #cut(matches: (answer: UnfinishedAnswer) => boolean): void {
    const oldest = this.#answers.values().find(matches);
    if (!oldest) return;
    this.end(oldest);
    oldest.cut();
  }
}
