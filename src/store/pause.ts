/** Who can pause a subscriber. `callback_gone` is the bus, after the callback has answered 410 (Gone). */
export const PAUSERS = ['callback_gone', 'operator', 'subscriber'] as const;
export type Pauser = (typeof PAUSERS)[number];

/**
 * Returns who or what has paused a subscriber, or null if it is not paused. The arguments are fields of the
 * subscriber's hash. If `pausedBy` is neither `operator` nor `subscriber`, the callback has answered 410.
 */
export function pauserOf(pausedAt?: string | null, pausedBy?: string | null): Pauser | null {
  if (!pausedAt) return null;
  return pausedBy === 'operator' || pausedBy === 'subscriber' ? pausedBy : 'callback_gone';
}
