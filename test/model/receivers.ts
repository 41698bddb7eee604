import assert from 'node:assert/strict';

/**
 * What receivers may have got. They ignore a delivery whose webhook-id they have taken before, as docs/receiving.md
 * tells them to. A failover takes nothing back from them.
 */
export class Receivers {
  /** The events that each batch was last given out with. */
  readonly #given = new Map<string, ReadonlySet<string>>();
  /** For each subscriber, the events that it has accepted. */
  readonly #accepted = new Map<string, Set<string>>();

  /**
   * A worker got this batch. Asserts that its receiver loses no event if it has taken the batch before, whether or not
   * the bus heard of that, and ignores it now.
   */
  give(token: string, name: string, events: readonly string[]): void {
    const before = this.#given.get(name);
    const accepted = this.#accepted.get(token);
    for (const event of before ? events : [])
      assert.ok(before?.has(event) || accepted?.has(event), `${token} may ignore ${event} in ${name}`);
    this.#given.set(name, new Set(events));
  }

  /** The receiver has these events of a batch, from now or from before. */
  accept(token: string, events: readonly string[]): void {
    const accepted = this.#accepted.get(token) ?? new Set();
    this.#accepted.set(token, accepted);
    for (const event of events) accepted.add(event);
  }
}
