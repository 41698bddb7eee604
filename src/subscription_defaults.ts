// What holds for a subscriber whose hash in Redis does not say otherwise. lua/subscribing/subscribe.lua writes the same values.

/** How long a batch waits for more events. */
export const DEFAULT_TIMEOUT_MS = 500;

/** How many events make a batch ready at once. */
export const DEFAULT_MAX_EVENTS = 100;

/** Health points range from 0 to this. */
export const PERFECT_HEALTH = 100;
