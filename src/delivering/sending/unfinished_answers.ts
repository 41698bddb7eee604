/** Maximum unfinished answers in a thread: of one subscriber, and of all subscribers together. */
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
 * an answer has arrived. So without a limit, one subscriber could hold any number of connections.
 */
export class UnfinishedAnswers {
  readonly #answers = new Set<UnfinishedAnswer>();

  /** Adds an answer. If there are too many now, closes the connection of the oldest. */
  begin(answer: UnfinishedAnswer): void {
    this.#answers.add(answer);
    if (this.#answers.size <= MAX_OF_SUBSCRIBER) return;
    const all = [...this.#answers];
    const own = all.filter(({ subscriber }) => subscriber === answer.subscriber);
    if (own.length > MAX_OF_SUBSCRIBER) this.#cut(own[0]);
    else if (all.length > MAX_OF_ALL) this.#cut(all[0]);
  }

  /** Forgets an answer that has arrived completely or whose connection was closed. Can be repeated. */
  end(answer: UnfinishedAnswer): void {
    this.#answers.delete(answer);
  }

  #cut(oldest: UnfinishedAnswer | undefined): void {
    if (!oldest) return;
    this.end(oldest);
    oldest.cut();
  }
}
