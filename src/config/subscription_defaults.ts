// Defaults for subscribers whose hash in Redis lacks a field. Scripts get these defaults as the Lua module
// `store/defaults`, which src/store/script_source.ts makes.

/** Time that a batch waits for more events. */
export const DEFAULT_TIMEOUT_MS = 500;

export const DEFAULT_MAX_EVENTS = 100;

/** Maximum bytes in the body of a delivery. A longer event is delivered alone. */
export const DEFAULT_MAX_BYTES = 1024 * 1024;

/** Maximum health points of a subscriber. The minimum is 0. */
export const PERFECT_HEALTH = 100;
