const MAX_KEY_BYTES = 256;

/** The fields of an event that can contain its join key: the text or number by which a join groups events. */
interface Keyed {
  url: unknown;
  data?: unknown;
}

/**
 * Returns the join key of an event: the text or number at the place `by`, which is `url` or a path into `data`, such as
 * `data.order.id`. Returns undefined if the event has no text or number there, or if it is empty or too long. 17 and
 * "17" are the same join key.
 */
export function keyOf(event: Keyed, by: string): string | undefined {
  const key = asText(valueAt(event, by.split('.')));
  return key === undefined || key === '' || Buffer.byteLength(key) > MAX_KEY_BYTES ? undefined : key;
}

function valueAt(event: Keyed, path: readonly string[]): unknown {
  let value: unknown = event;
  for (const name of path) {
    if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return undefined;
    // The `length` of an array is not part of the data, so it cannot be the join key.
    if (!Object.hasOwn(value, name) || (Array.isArray(value) && name === 'length')) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function asText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  // A whole number with too many digits for a double is parsed into a raw JSON object, whose text has all digits.
  return JSON.isRawJSON(value) ? JSON.stringify(value) : undefined;
}
