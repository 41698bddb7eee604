const MAX_KEY_BYTES = 256;

/** The parts of an event by which a join finds its key. */
export interface Keyed {
  url: unknown;
  data?: unknown;
}

/**
 * Returns the key of an event by the rule `by` of a join: `url`, or a path into `data`. Undefined if the event has
 * no text or number there, or an empty or too long one. A number is its digits, so 17 and "17" are the same key.
 */
export function keyOf(event: Keyed, by: string): string | undefined {
  const key = asText(valueAt(event, by.split('.')));
  return key === undefined || key === '' || Buffer.byteLength(key) > MAX_KEY_BYTES ? undefined : key;
}

function valueAt(event: Keyed, path: readonly string[]): unknown {
  let value: unknown = event;
  for (const name of path) {
    if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return undefined;
    // An array has `length` as an own property, but it is no data.
    if (!Object.hasOwn(value, name) || (Array.isArray(value) && name === 'length')) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  // A whole number that a double cannot hold.
  return JSON.isRawJSON(value) ? JSON.stringify(value) : undefined;
}
