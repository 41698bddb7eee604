/** What a new subscriber has unless it asks for something else; so has one whose hash lacks the field. */
export const DEFAULT_TIMEOUT_MS = 500;
export const DEFAULT_MAX_EVENTS = 100;
/** Health points of a subscriber whose deliveries succeed; the least is 0. */
export const PERFECT_HEALTH = 100;
