import type { IncomingMessage } from 'node:http';
import type { NonceUse } from './nonce_uses.ts';

type Take = (count: NonceUse) => Promise<boolean>;

/** The count of a right answer, which the call that does what is asked for is to take; or it is taken by itself, once. */
export class DueCount {
  readonly #count: NonceUse;
  readonly #take: Take;
  #taken: Promise<boolean> | undefined;

  constructor(count: NonceUse, take: Take) {
    this.#count = count;
    this.#take = take;
  }

  /** For the call that takes it; undefined once it is taken by itself. */
  get left(): NonceUse | undefined {
    return this.#taken ? undefined : this.#count;
  }

  /** Takes it by itself, unless that has begun. Whether it was new. Throws StorageUnavailable. */
  take(): Promise<boolean> {
    this.#taken ??= this.#take(this.#count);
    return this.#taken;
  }

  /** Takes it by itself if the body did not come with the head: whoever saw the head could come first, with a body of their own. */
  takeUnlessWhole(request: IncomingMessage): void {
    setImmediate(() => {
      // What comes of it is for who takes it next.
      if (!request.complete) this.take().catch(() => {});
    });
  }
}
