import type { Figure } from './figures.ts';

/** A service that figures are sent to every so often. */
export interface Adapter {
  /** Throws if they could not be sent; what the counters had grown by then goes with the next figures. */
  send(figures: readonly Figure[]): Promise<void>;
}
