/** Number of hash slots of a Redis Cluster. */
const SLOTS = 16_384;

/**
 * Returns the hash tags of the partitions of a bus: `count` short texts whose slots lie evenly over a
 * cluster, in the order of the slots. Those of `0`, `1` and `2` lie unevenly: of three masters, the first
 * would get two partitions and the second none. The same count always gives the same tags, since keys are
 * stored under them.
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

/** Returns the hash slot of a key: that of its hash tag, or of the whole key if it has none. */
export function slotOfKey(key: string): number {
  return slotOf(hashTag(key) ?? key);
}

/** Returns the hash tag of a key or channel: what is between its first `{` and the next `}`, unless that is nothing. */
export function hashTag(key: string): string | undefined {
  return /^[^{]*\{([^}]+)\}/.exec(key)?.[1];
}

/** Returns the hash slot of a text in a Redis Cluster: the CRC-16 (XMODEM) of the text, modulo the number of slots. */
export function slotOf(text: string): number {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  }
  return (crc & 0xffff) % SLOTS;
}
