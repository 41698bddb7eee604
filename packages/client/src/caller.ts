import type { Answer } from './answer.ts';
import { type CallOptions, Deadline } from './deadline.ts';
import { ProblemError, TimeLimitError } from './problem.ts';
import { Attempts } from './retrying.ts';
import type { Request, Transport } from './transport.ts';

/** Makes all calls of the API except publishing. */
export class Caller {
  readonly #transport: Transport;
  readonly #timeoutMs: number;

  constructor(transport: Transport, timeoutMs: number) {
    this.#transport = transport;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Makes a call, and resolves with the answer if its status is 2xx. After a transient failure, repeats the call if the
   * bus may do it twice without harm (`isRepeatable`), or has certainly not done it. Also resolves if a repeated DELETE
   * is answered 404, because an earlier attempt has probably deleted the thing.
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
      return await attempts.make({ send, request, signal: ended.signal, isRepeatable });
    } catch (error) {
      const isGone = error instanceof ProblemError && error.status === 404;
      if (!isGone || request.method !== 'DELETE' || !attempts.hasUnknownEnd) throw error;
      return { status: 204, headers: new Headers(), text: '' };
    } finally {
      deadline.clear();
    }
  }
}
