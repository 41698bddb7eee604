/** Who can pause a subscriber. `callback_gone` means the bus, after the callback answered 410. */
export const PAUSERS = ['callback_gone', 'operator', 'subscriber'] as const;
export type Pauser = (typeof PAUSERS)[number];

/** Returns who paused a subscriber, by these fields of its hash; null if it is not paused. */
export function pauserOf(pausedAt?: string | null, pausedBy?: string | null): Pauser | null {
  if (!pausedAt) return null;
  return pausedBy === 'operator' || pausedBy === 'subscriber' ? pausedBy : 'callback_gone';
}
