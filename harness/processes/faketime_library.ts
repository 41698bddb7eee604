import { existsSync, globSync } from 'node:fs';

/**
 * Returns the path of libfaketime, from LIBFAKETIME or where packages put it; undefined if it is not
 * installed.
 */
export function faketimeLibrary(): string | undefined {
  return [
    process.env.LIBFAKETIME ?? '',
    ...globSync('/usr/lib/*/faketime/libfaketime.so.1'),
    '/usr/lib/faketime/libfaketime.so.1',
    '/usr/lib64/faketime/libfaketime.so.1',
  ].find((path) => existsSync(path));
}

/**
 * Returns the environment of a process whose wall clock is off by this much, such as `+1d` or `-60s`. Its
 * timers stay correct.
 */
export function wrongClock(library: string, offset: string): Record<string, string> {
  return { LD_PRELOAD: library, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
}
