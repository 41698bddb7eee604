import { DAY_MS, type Zone } from './zone.ts';

/**
 * The local times of a cron expression: each combination of these hours, minutes and seconds, on the days for which
 * `isDay` returns true.
 */
export interface DayTimes {
  hours: readonly number[];
  minutes: readonly number[];
  seconds: readonly number[];
  isDay(date: Date): boolean;
}

/**
 * Counts the times of an expression after `afterMs`, up to and including `upToMs`. Multiplies the numbers of hours,
 * minutes and seconds instead of finding the times one by one, which takes 100 µs for each. Example: a thousand
 * triggers fire every minute, and no worker ran for a day. Finding all the missed times would take 144 s.
 */
export function countBetween(times: DayTimes, zone: Zone, afterMs: number, upToMs: number): number {
  let count = 0;
  for (let fromMs = afterMs + 1; fromMs <= upToMs; ) {
    const offsetMs = zone.offsetMs(fromMs);
    const endMs = endOfStretch(zone, fromMs, upToMs, offsetMs);
    count += countLocal(times, fromMs + offsetMs, endMs + offsetMs);
    fromMs = endMs;
  }
  return count;
}

/**
 * Returns the first time after `fromMs` at which the zone's offset is not `offsetMs` any more. Returns `upToMs` + 1 if
 * the offset stays the same up to `upToMs`.
 */
function endOfStretch(zone: Zone, fromMs: number, upToMs: number, offsetMs: number): number {
  for (let at = fromMs; at < upToMs; at += DAY_MS) {
    const untilMs = Math.min(at + DAY_MS, upToMs);
    if (zone.offsetMs(untilMs) !== offsetMs) return zone.endOfOffset(at, untilMs);
  }
  return upToMs + 1;
}

/** Counts the times of an expression from `fromMs` up to, but not including, `endMs`. Both are in local time. */
function countLocal(times: DayTimes, fromMs: number, endMs: number): number {
  let count = 0;
  for (let day = Math.floor(fromMs / DAY_MS); day * DAY_MS < endMs; day++) {
    if (!times.isDay(new Date(day * DAY_MS))) continue;
    const startMs = day * DAY_MS;
    count +=
      countBefore(times, Math.min(endMs - startMs, DAY_MS)) -
      countBefore(times, Math.max(fromMs - startMs, 0));
  }
  return count;
}

/** Counts the times of an expression on a day, from midnight up to, but not including, `timeMs` (since midnight). */
function countBefore({ hours, minutes, seconds }: DayTimes, timeMs: number): number {
  const second = Math.ceil(timeMs / 1000);
  const [h, m, s] = [Math.floor(second / 3600), Math.floor(second / 60) % 60, second % 60];
  let count = below(hours, h) * minutes.length * seconds.length;
  if (!hours.includes(h)) return count;
  count += below(minutes, m) * seconds.length;
  return minutes.includes(m) ? count + below(seconds, s) : count;
}

function below(places: readonly number[], limit: number): number {
  return places.filter((each) => each < limit).length;
}
