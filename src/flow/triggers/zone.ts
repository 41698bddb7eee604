import { LRUCache } from 'lru-cache';

/** Matches names of IANA time zones. `Intl` alone would also accept offsets such as `+01:00`. */
const ZONE_NAME = /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/;
export const DAY_MS = 86_400_000;
const MAX_SPELLINGS = 1000;
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

/** A time zone. Its offset is local time minus UTC. */
export class Zone {
  /** The name of the zone as `Intl` spells it. Triggers may spell it differently. */
  readonly name: string;
  readonly #format: Intl.DateTimeFormat;

  constructor(name: string) {
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
    this.name = this.#format.resolvedOptions().timeZone;
  }

  get isUtc(): boolean {
    return this.name === 'UTC';
  }

  offsetMs(atMs: number): number {
    if (this.isUtc) return 0;
    const [, sign, hours, minutes, seconds = 0] = OFFSET.exec(this.#format.format(atMs)) ?? [];
    if (sign === undefined) return 0;
    const offsetMs = ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
    return sign === '-' ? -offsetMs : offsetMs;
  }

  /**
   * Returns the moment at which the clocks show a local time (in ms, as if it were UTC). If they show it twice, returns
   * the first moment. If they skip it, returns the moment at which they go forward. The result may be wrong if the
   * clocks change twice within two days.
   */
  firstAt(localMs: number): number {
    const [dayBeforeMs, dayAfterMs] = [localMs - DAY_MS, localMs + DAY_MS];
    for (const offsetMs of [this.offsetMs(dayBeforeMs), this.offsetMs(dayAfterMs)])
      if (this.offsetMs(localMs - offsetMs) === offsetMs) return localMs - offsetMs;
    return this.endOfOffset(dayBeforeMs, dayAfterMs);
  }

  /**
   * Returns a time between `fromMs` and `toMs` at which the zone changes from the offset at `fromMs` to another one.
   * The offsets at `fromMs` and at `toMs` must differ. Example: in Berlin from January to July, the result is the
   * beginning of summer time.
   */
  endOfOffset(fromMs: number, toMs: number): number {
    const offsetMs = this.offsetMs(fromMs);
    return bisect(fromMs, toMs, (atMs) => this.offsetMs(atMs) !== offsetMs);
  }

  /**
   * Returns a time between `fromMs` and `toMs` at which the zone changes to the offset at `toMs`. The offsets at
   * `fromMs` and at `toMs` must differ. If the zone changes to this offset several times, returns any of these times.
   */
  startOfOffset(fromMs: number, toMs: number): number {
    const offsetMs = this.offsetMs(toMs);
    return bisect(fromMs, toMs, (atMs) => this.offsetMs(atMs) === offsetMs);
  }
}

/**
 * Returns a time (ms, a multiple of 1000) at which `isLater` becomes true. `isLater` must be false at `fromMs` and true
 * at `toMs`.
 */
function bisect(fromMs: number, toMs: number, isLater: (atMs: number) => boolean): number {
  let [low, high] = [Math.floor(fromMs / 1000), Math.floor(toMs / 1000)];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (isLater(middle * 1000)) high = middle;
    else low = middle;
  }
  return high * 1000;
}

/**
 * The zones in use, by the name that `Intl` uses. There are only a few hundred such names, so this map needs no limit.
 */
const zones = new Map<string, Zone>();
const spellings = new LRUCache<string, Zone>({ max: MAX_SPELLINGS });

/** Returns the time zone of an IANA name; undefined if there is none. */
export function zoneCalled(name: string): Zone | undefined {
  const known = spellings.get(name);
  if (known || !ZONE_NAME.test(name)) return known;
  try {
    const made = new Zone(name);
    const zone = zones.get(made.name) ?? made;
    zones.set(zone.name, zone);
    spellings.set(name, zone);
    return zone;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
