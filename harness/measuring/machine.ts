import { execFileSync } from 'node:child_process';
import { cpus, totalmem, type } from 'node:os';
import { redisBinary } from '../redis/redis_binary.ts';

/** Returns a description of the machine on which figures are measured. */
export function machine() {
  const redis = execFileSync(redisBinary(), ['--version'], { encoding: 'utf8' });
  return {
    system: type(),
    cores: cpus().length,
    model: cpus()[0]?.model ?? 'unknown',
    memoryBytes: totalmem(),
    node: process.version,
    redis: /v=(\S+)/.exec(redis)?.[1] ?? redis.trim(),
  };
}

/** Returns the description in one line. */
export function describe({
  cores,
  model,
  memoryBytes,
  system,
  node,
  redis,
}: ReturnType<typeof machine>): string {
  return `${cores} × ${model}, ${Math.round(memoryBytes / 2 ** 30)} GiB, ${system}, Node ${node}, Redis ${redis}`;
}
