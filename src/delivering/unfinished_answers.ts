/** Maximum unfinished answers of one subscriber, and of all, in a thread. */
const MAX_OF_SUBSCRIBER = 16;
const MAX_OF_ALL = 256;

/**
 * An answer of which not all bytes have arrived. Its status has already decided the outcome of the delivery. The rest
 * is still read, so that its connection can be used again.
 */
export interface UnfinishedAnswer {
  /** The subscriber's token. */
  readonly subscriber: string;
  /** Closes the connection of the answer. The outcome of the delivery stays as it is. */
  cut(): void;
}

/**
 * Limits the connections with unfinished answers, by closing the oldest. A worker takes its next job before the rest of
 * an answer has arrived, so one subscriber could otherwise hold any number of connections.
 */
export class UnfinishedAnswers {
  /** The unfinished answers in the order in which they began. */
  readonly #answers = new Set<UnfinishedAnswer>();
  readonly #counts = new Map<string, number>();

  /** Adds an answer. If there are too many now, closes the connection of the oldest. */
  begin(answer: UnfinishedAnswer): void {
    const { subscriber } = answer;
    this.#answers.add(answer);
    const count = (this.#counts.get(subscriber) ?? 0) + 1;
    this.#counts.set(subscriber, count);
    if (count > MAX_OF_SUBSCRIBER) this.#cut((each) => each.subscriber === subscriber);
    else if (this.#answers.size > MAX_OF_ALL) this.#cut(() => true);
  }

  /**
   * Forgets an answer that has arrived completely or whose connection was closed. Does nothing if the answer is
   * unknown, for example at a second call.
   */
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
