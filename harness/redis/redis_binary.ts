import { spawnSync } from 'node:child_process';

class MissingRedisError extends Error {
  readonly code = 'REDIS_MISSING';
}

/** The binary. `bin/test` tells its test processes what it has found, because looking takes each 15 ms of CPU. */
let found = process.env.TESTED_REDIS_BINARY;

/**
 * Returns redis-server or, if PATH has none of version 7 or later, valkey-server. Throws MissingRedisError if there is
 * neither.
 */
export function redisBinary(): string {
  found ??= ['redis-server', 'valkey-server'].find((name) => majorVersion(name) >= 7);
  if (found !== undefined) return found;
  throw new MissingRedisError(
    'neither redis-server nor valkey-server of version 7 or later is on PATH: run bin/setup, which installs one',
  );
}

function majorVersion(name: string): number {
  const { stdout } = spawnSync(name, ['--version'], { encoding: 'utf8' });
  return Number(/v=(\d+)\./.exec(stdout ?? '')?.[1] ?? 0);
}
