import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Partition } from '../../src/store/partition.ts';
import type { PrivateRedis } from './private_redis.ts';

/** Matches the commands that enclose or precede the writes of a script. */
const FRAME = /^(select|multi|exec)$/i;

/** Resolves with the writes that `work` makes, as a Redis with `appendonly` has them in its file. */
export async function writesOf({ dir }: PrivateRedis, work: () => Promise<unknown>): Promise<Buffer[][]> {
  const files = join(dir, 'appendonlydir');
  const file = join(files, readdirSync(files).find((name) => name.endsWith('.incr.aof')) ?? '');
  const from = statSync(file).size;
  await work();
  return commandsIn(readFileSync(file).subarray(from)).filter(([name]) => !FRAME.test(String(name)));
}

export async function write({ redis }: Partition, commands: readonly Buffer[][]): Promise<void> {
  for (const [name, ...args] of commands) await redis.call(String(name), ...args);
}

/** Reads commands in the protocol of Redis: arrays of strings. */
function commandsIn(bytes: Buffer): Buffer[][] {
  const commands: Buffer[][] = [];
  let at = 0;
  const number = () => {
    const end = bytes.indexOf('\r\n', at);
    const text = bytes.toString('latin1', at + 1, end);
    at = end + 2;
    return Number(text);
  };
  const string = () => {
    const length = number();
    at += length + 2;
    return bytes.subarray(at - length - 2, at - 2);
  };
  while (at < bytes.length) commands.push(Array.from({ length: number() }, string));
  return commands;
}
