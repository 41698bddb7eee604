import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import { connect, type RedisTls } from '../store/connection.ts';
import type { Connection } from '../store/master.ts';
import { Partitions } from '../store/partitions.ts';

/** Maximum time to connect. */
const CONNECT_MS = 5000;

/** A bus, and the prefix of all of its keys. */
export interface Side {
  partitions: Partitions;
  prefix: string;
  redis: Connection;
  /** Its Redis and its prefix, without a password. */
  name: string;
}

interface Wanted {
  url: string;
  prefix: string;
  partitions: number;
  tls: RedisTls;
  log: Log;
}

/** Resolves when Redis can be used. Throws BootError if it cannot be reached. */
export async function openSide({ url, prefix, partitions, tls, log }: Wanted): Promise<Side> {
  const address = url.replace(/\/\/[^@/]*@/, '//');
  const redis = connect(url, log, tls);
  await new Promise<void>((resolve, reject) => {
    redis.once('ready', resolve);
    setTimeout(() => reject(new BootError(`Redis cannot be reached at ${address}.`)), CONNECT_MS).unref();
  });
  const name = address + (prefix && ` under the prefix ${prefix}`);
  return { partitions: Partitions.on(redis, { prefix, partitions, log }), prefix, redis, name };
}
