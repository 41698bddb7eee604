import type { Answer } from './answer.ts';
import { type CallOptions, Deadline } from './deadline.ts';
import { ProblemError, TimeLimitError } from './problem.ts';
import { Attempts } from './retrying.ts';
import type { Request, Transport } from './transport.ts';

/** Makes calls other than publishing. */
export class Caller {
  readonly #transport: Transport;
  readonly #timeoutMs: number;

  constructor(transport: Transport, timeoutMs: number) {
    this.#transport = transport;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Resolves with the 2xx answer. An attempt that the bus may have done is repeated only if the call `isRepeatable`. If
   * a repeated DELETE is answered 404, the call resolves: an earlier attempt will have deleted it.
   */
  async call(request: Request, isRepeatable: boolean, options: CallOptions): Promise<Answer> {
    const { timeoutMs = this.#timeoutMs, signal } = options;
    const attempts = new Attempts();
    const ended = new AbortController();
    const deadline = new Deadline(timeoutMs, signal, {
      aborted: (reason) => ended.abort(reason),
      late: () => {
        const { mayBeDone, lastFailure: cause } = attempts;
        ended.abort(new TimeLimitError(timeoutMs, { mayBeDone, cause }));
      },
    });
    try {
      const send = () => this.#transport.send(request, ended.signal);
      return await attempts.make({ send, signal: ended.signal, isRepeatable });
    } catch (error) {
      const isGone = error instanceof ProblemError && error.status === 404;
      if (!isGone || request.method !== 'DELETE' || !attempts.hasUnknownEnd) throw error;
      return { status: 204, headers: new Headers(), text: '' };
    } finally {
      deadline.clear();
    }
  }
}
