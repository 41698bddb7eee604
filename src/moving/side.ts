import { BootError } from '../errors.ts';
import type { Log } from '../log.ts';
import { connect, type RedisTls, reasonOf } from '../store/connection.ts';
import type { Connection } from '../store/master.ts';
import { Partitions } from '../store/partitions.ts';

const CONNECT_MS = 5000;

/** One side of a move: the source or the target. `prefix` is the text with which all of its keys begin. */
export interface Side {
  partitions: Partitions;
  prefix: string;
  redis: Connection;
  /** The name of this side in messages: its Redis and its prefix, without a password. */
  name: string;
}

interface Wanted {
  url: string;
  prefix: string;
  partitions: string;
  tls: RedisTls;
  log: Log;
}

const MAX_PARTITIONS = 256;

/** Resolves when Redis can be used. Throws BootError if Redis cannot be reached, or if an argument is not valid. */
export async function openSide({ url, prefix, partitions: text, tls, log }: Wanted): Promise<Side> {
  const partitions = Number(text);
  if (!/^[1-9]\d*$/.test(text) || partitions > MAX_PARTITIONS)
    throw new BootError(`--partitions must be a whole number from 2 to ${MAX_PARTITIONS}.`);
  if (partitions > 1 && /[^\w:-]/.test(prefix))
    throw new BootError(
      'The prefix of several partitions must have only letters, digits, and the characters _ - :',
    );
  const address = withoutSecrets(url);
  const redis = connect(url, log, tls);
  const ready = new Promise<void>((resolve, reject) => {
    const giveUp = (reason: string) =>
      reject(new BootError(`Redis cannot be reached at ${address}: ${reason}`));
    redis.once('ready', resolve);
    if ('on' in redis) redis.once('error', (error) => giveUp(reasonOf(error, url)));
    setTimeout(() => giveUp('it does not answer'), CONNECT_MS).unref();
  });
  await ready.catch((error: unknown) => {
    redis.disconnect();
    throw error;
  });
  const name = address + (prefix && ` under the prefix ${prefix}`);
  return { partitions: Partitions.on(redis, { prefix, partitions, log }), prefix, redis, name };
}

/** Returns a URL of Redis without its user and password, and without its options except `db`. */
function withoutSecrets(url: string): string {
  const [address = '', options] = url.replace(/\/\/[^/]*@/, '//').split('?', 2);
  const db = new URLSearchParams(options).get('db');
  return db === null ? address : `${address}?db=${db}`;
}
