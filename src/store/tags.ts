const SLOTS = 16_384;

/**
 * Returns a hash tag for each of `count` partitions. A hash tag is the part of a key that decides the key's slot in a
 * cluster. The slots of these tags are spread evenly over the masters. The tags `0`, `1` and `2` would not do: the
 * second of three masters would get two partitions, and the first none. The same count must always give the same tags,
 * because stored keys contain them.
 */
export function hashTags(count: number): string[] {
  const width = SLOTS / count;
  return Array.from({ length: count }, (_, index) =>
    firstTagIn((index + 0.4) * width, (index + 0.6) * width),
  );
}

function firstTagIn(first: number, end: number): string {
  for (let number = 0; ; number++) {
    const slot = slotOf(String(number));
    if (slot >= first && slot < end) return String(number);
  }
}

/** Returns the hash slot of a key. It is the slot of the key's hash tag or, without one, of the whole key. */
export function slotOfKey(key: string): number {
  return slotOf(hashTag(key) ?? key);
}

/** Returns the hash tag of a key or channel: the text between its first `{` and the next `}`, unless that is empty. */
export function hashTag(key: string): string | undefined {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1];
}

/** Returns the hash slot of a text in a Redis Cluster: its CRC-16 (XMODEM), modulo the number of slots. */
export function slotOf(text: string): number {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  }
  return (crc & 0xffff) % SLOTS;
}
